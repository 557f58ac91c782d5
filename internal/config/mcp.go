package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	shell "mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// MCPServer is one tool server of the settings.
type MCPServer struct {
	Name, URL    string
	Command, Env []string
	Token        Secret
	Timeout      time.Duration
}

// serverName keeps names short enough for a function's name, and without dots.
var serverName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,23}$`)

// All are the servers, by name.
func (m MCP) All() []MCPServer {
	var all []MCPServer
	for name, parts := range m.Servers.groups() {
		if s, err := m.server(name, parts); err == nil {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b MCPServer) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (m MCP) server(name string, parts map[string]string) (MCPServer, error) {
	s := MCPServer{Name: name}
	if !serverName.MatchString(name) {
		return s, fmt.Errorf("%q is no name: lower-case letters, digits and dashes, at most 24", name)
	}
	for part, text := range parts {
		switch part {
		case "command":
			words, err := commandWords(text)
			if err != nil {
				return s, err
			}
			s.Command = words
		case "url":
			s.URL = text
		case "env":
			s.Env = strings.Fields(text)
		case "timeout":
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				return s, fmt.Errorf("%q is not a duration such as 60s", text)
			}
			s.Timeout = d
		default:
			return s, fmt.Errorf("%q is none of command, url, env, timeout", part)
		}
	}
	if (len(s.Command) == 0) == (s.URL == "") {
		return s, fmt.Errorf("has neither or both of command and url")
	}
	for _, t := range m.Tokens {
		if of, token, _ := strings.Cut(t.Reveal(), "="); of == name {
			s.Token = NewSecret(token)
		}
	}
	return s, nil
}

// commandWords divides a command into words, quoted as for a shell. There is no
// shell: what only one could do is refused.
func commandWords(text string) ([]string, error) {
	var variable string
	env := shell.FuncEnviron(func(name string) string {
		if name != "IFS" { // which is always looked at
			variable = name
		}
		return ""
	})
	var words []string
	for w, err := range syntax.NewParser().WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return nil, fmt.Errorf("the command is not quoted as for a shell: %w", err)
		}
		word, err := shell.Literal(&shell.Config{Env: env}, w)
		if err != nil {
			variable = text
		}
		words = append(words, word)
	}
	if variable != "" {
		return nil, fmt.Errorf("the command needs a shell for %s, and there is none", variable)
	}
	return words, nil
}

func (c *Config) checkMCP(k *checker) {
	names := map[string]bool{}
	for name, parts := range c.MCP.Servers.groups() {
		names[name] = true
		s, err := c.MCP.server(name, parts)
		if err != nil {
			k.fault("mcp.servers."+name, "%v", err)
		}
		if s.URL != "" {
			k.httpURL("mcp.servers."+name+".url", s.URL)
		}
	}
	for i, t := range c.MCP.Tokens {
		if of, token, ok := strings.Cut(t.Reveal(), "="); !ok || token == "" || !names[of] {
			k.fault("mcp.tokens", "item %d is not NAME=token of a server of mcp.servers", i+1)
		}
	}
}
