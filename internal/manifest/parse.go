package manifest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ParseError is what is wrong with a manifest's form.
type ParseError struct {
	// Line counts from 1 in the text that was parsed; 0 where it is not known.
	Line int
	// Problem is one sentence without a final stop.
	Problem string
}

func (e *ParseError) Error() string {
	if e.Line == 0 {
		return e.Problem
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
}

// Parse reads workspaces by name from YAML or JSON. Unknown keys are refused. It
// checks the form only; see [Workspaces.Check].
func Parse(text string) (Workspaces, error) {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, problem(err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return Workspaces{}, nil
	}
	if len(file.Docs) > 1 {
		return nil, &ParseError{Problem: "holds more than one document"}
	}
	return ParseNode(file.Docs[0].Body)
}

// ParseNode is [Parse] for a part of a parsed file: lines are the file's.
func ParseNode(n ast.Node) (Workspaces, error) {
	w := Workspaces{}
	if err := yaml.NodeToValue(n, &w, yaml.Strict()); err != nil {
		return nil, problem(err)
	}
	return w, nil
}

func problem(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return &ParseError{Problem: "is not YAML"}
	}
	p := &ParseError{Problem: y.GetMessage()}
	if t := y.GetToken(); t != nil && t.Position != nil {
		p.Line = t.Position.Line
	}
	return p
}

// String writes the workspaces as text that [Parse] reads.
func (w Workspaces) String() string {
	if len(w) == 0 {
		return ""
	}
	data, err := json.Marshal(map[string]Workspace(w))
	if err != nil {
		return ""
	}
	return string(data)
}
