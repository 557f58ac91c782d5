package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Reader is the program that gets what is sent to a running command.
type Reader struct {
	// Program is its name, or its path where that is no system directory's. It is
	// empty where the command is more than one plain program: then it is not
	// known who reads, or when.
	Program string
	// Script says that it is a shell that reads its commands from there.
	Script bool
	// Terminal says that it gets it as keys of a terminal.
	Terminal bool
}

// keys says why text means something else as keys of a terminal than by its letters;
// empty where it does not. What a terminal itself, or a line that is edited, makes
// of a key is never told by the text.
func keys(text string) string {
	for _, r := range text {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError {
			return "the text holds keys that edit, complete or interrupt on a terminal"
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		return "the text does not end its last line, so what comes next is part of it"
	}
	return ""
}

// shellReads are the options with which a shell still reads its commands from
// its standard input, and nothing else than they say: one with -i also expands
// its history ("!", "^"), and runs its start-up file.
var shellReads = []string{"-", "-s", "--norc", "--noprofile"}

// Reader returns who gets what is sent to the command while it runs.
func (p *Policy) Reader(command string, lang Shell) Reader {
	f, err := p.parse(command, lang)
	if err != nil || len(f.Stmts) != 1 {
		return Reader{}
	}
	words, ok := plainWords(f.Stmts[0])
	if !ok {
		return Reader{}
	}
	r := Reader{Program: words[0]}
	if dir, name, found := cutLast(words[0]); found && slices.Contains([]string{"/bin", "/usr/bin", "/usr/local/bin"}, dir) {
		r.Program = name
	}
	r.Script = slices.Contains([]string{"sh", "bash", "dash", "ash"}, r.Program) &&
		!slices.ContainsFunc(words[1:], func(w string) bool { return !slices.Contains(shellReads, w) })
	return r
}

func cutLast(path string) (dir, name string, found bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
