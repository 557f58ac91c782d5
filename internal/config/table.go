package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Table is a setting of named rows, such as a price for each model. In the YAML
// file the names stand below its key, nested or dotted; on the command line a row
// has the table's key, a dot and its name; in the environment all rows are one
// list, name=value. A stronger source adds rows, and replaces those of its names.
type Table map[string]string

// add takes rows in, each as name=value.
func (t *Table) add(rows []string) error {
	if *t == nil {
		*t = Table{}
	}
	for _, row := range rows {
		name, text, ok := strings.Cut(row, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return fmt.Errorf("%q is not name=value", row)
		}
		(*t)[name] = strings.TrimSpace(text)
	}
	return nil
}

func (t *Table) rows() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(*t)) {
		out = append(out, name+"="+(*t)[name])
	}
	return out
}

// groups are rows by the part of their names before the last dot.
func (t Table) groups() map[string]map[string]string {
	out := map[string]map[string]string{}
	for name, text := range t {
		group, part := "", name
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			group, part = name[:i], name[i+1:]
		}
		if out[group] == nil {
			out[group] = map[string]string{}
		}
		out[group][part] = text
	}
	return out
}

// tableOf finds the table that a row's key belongs to, and the row's name.
func (l *loader) tableOf(key string) (table field, row string, ok bool) {
	for k, f := range l.index {
		if rest, is := strings.CutPrefix(key, k+"."); is && f.isTable() && rest != "" {
			return f, rest, true
		}
	}
	return field{}, "", false
}

// money is an amount in millionths of a dollar, read from "1.25".
func money(text string) (int64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1e9) {
		return 0, fmt.Errorf("%q is not an amount of dollars such as 1.25", text)
	}
	return int64(n*1e6 + 0.5), nil
}
