package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

type rule struct{}

func (j *judge) applyRules(c *call, m mark) {}

// Default returns the built-in policy.
func Default() *Policy {
	sum := sha256.Sum256([]byte("builtin"))
	p := &Policy{version: hex.EncodeToString(sum[:]), tables: loadTables(), builtins: builtinTable(),
		targets:     []string{"build", "test", "tests", "check", "lint", "fmt", "vet", "format", "typecheck"},
		targetStops: []string{"deploy", "publish", "push", "upload", "destroy", "delete", "drop", "migrate", "rollback", "install"},
	}
	p.protectedName = map[string]bool{}
	for _, n := range protectedNames {
		p.protectedName[strings.ToLower(strings.TrimSuffix(n, "/"))] = true
	}
	return p
}

// Load x
func Load(data []byte, name string) (*Policy, []Warning, error) { return Default(), nil, nil }
