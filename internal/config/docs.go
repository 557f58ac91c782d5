package config

import (
	"fmt"
	"strings"
)

// Markdown renders the settings as the table of docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key | environment | type | default | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range Fields() {
		def := f.Default
		if def == "" {
			def = "none"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", f.Key, f.Env, f.Type, cell(def), cell(f.Doc))
	}
	return b.String()
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(s)
}
