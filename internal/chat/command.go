package chat

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Verb names a command.
type Verb string

// The commands. [VerbRun] is a task: it opens a session in a channel and is a
// message to the session in a thread.
const (
	VerbRun     Verb = "run"
	VerbSwitch  Verb = "switch"
	VerbFork    Verb = "fork"
	VerbNew     Verb = "new"
	VerbTitle   Verb = "title"
	VerbModel   Verb = "model"
	VerbStop    Verb = "stop"
	VerbPause   Verb = "pause"
	VerbDone    Verb = "done"
	VerbDestroy Verb = "destroy"
	VerbList    Verb = "list"
	VerbStatus  Verb = "status"
	VerbHistory Verb = "history"
	VerbGrants  Verb = "grants"
	VerbRevoke  Verb = "revoke" // typed as `grants revoke <id>`
	VerbFiles   Verb = "files"
	VerbHelp    Verb = "help"
)

// Command is a parsed command. Which fields are set follows from the verb.
type Command struct {
	Verb Verb
	// Task is what the agent is to do, byte for byte as typed, without the white
	// space around it.
	Task string
	// Backend is --backend's value or switch's first word.
	Backend   string
	Workspace string
	Model     string
	// Title is --title's value or the quoted text of title and fork.
	Title string
	// Root is switch's second word.
	Root string
	// From is the session that `new --from` copies.
	From string
	// Grant is the standing permission that `grants revoke` ends.
	Grant string
	// Path is what `files` is asked for; empty is the workspace's root.
	Path string
}

// Flags reports whether the command names anything that only a new session has.
func (c Command) Flags() bool {
	return c.Backend != "" || c.Workspace != "" || c.Model != "" || c.Title != ""
}

// Parse reads what was typed after the mention or slash command. Text is a
// command only if all of it fits that command's grammar; any other text is a
// task. backends are the words that name a backend, whether or not it can be
// used here: `switch` with another single word is refused.
//
// The error is an [*Error] of kind [KindInvalid] that says what is wrong with
// flags that stand before the task, or that there is nothing to do.
func Parse(text string, backends []string) (Command, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Command{}, invalid("empty_task", "There is nothing to do in that message.",
			"Say what the agent should do, or `help` for the commands.")
	}
	words, ok := split(text)
	if ok {
		if c, fits, err := parseCommand(words, backends); fits || err != nil {
			return c, err
		}
	}
	return parseTask(text)
}

// parseCommand reads the commands other than run. It reports whether the words
// fit one.
func parseCommand(words []word, backends []string) (Command, bool, error) {
	verb := Verb(strings.ToLower(words[0].text))
	if words[0].quoted {
		return Command{}, false, nil
	}
	args := words[1:]
	switch verb {
	case VerbStop, VerbPause, VerbDone, VerbDestroy, VerbList, VerbStatus, VerbHistory, VerbHelp:
		return Command{Verb: verb}, len(args) == 0, nil
	case VerbSwitch:
		return parseSwitch(args, backends)
	case VerbFork:
		c, ok := parseFork(args)
		return c, ok, nil
	case VerbNew:
		c, ok := parseNew(args)
		return c, ok, nil
	case VerbTitle:
		ok := len(args) == 1 && args[0].quoted && strings.TrimSpace(args[0].text) != ""
		return Command{Verb: verb, Title: first(args)}, ok, nil
	case VerbModel:
		ok := len(args) == 1 && !args[0].quoted && plainName(args[0].text)
		return Command{Verb: verb, Model: first(args)}, ok, nil
	case VerbGrants:
		c, ok := parseGrants(args)
		return c, ok, nil
	case VerbFiles:
		ok := len(args) == 0 || (len(args) == 1 && !isFlag(args[0]))
		return Command{Verb: verb, Path: first(args)}, ok, nil
	}
	return Command{}, false, nil
}

func first(args []word) string {
	if len(args) == 0 {
		return ""
	}
	return args[0].text
}

// parseSwitch reads `switch [backend] [root]`. One word that is no backend is
// refused, because a typo there must not become a task.
func parseSwitch(args []word, backends []string) (Command, bool, error) {
	c := Command{Verb: VerbSwitch}
	if len(args) == 0 {
		return c, true, nil
	}
	name := strings.ToLower(args[0].text)
	known := slices.Contains(backends, name)
	switch {
	case len(args) == 1 && !known:
		return c, false, invalid("unknown_backend", "There is no backend “"+Shown(args[0].text)+"”.",
			"Backends: "+strings.Join(backends, ", ")+".")
	case len(args) == 1:
		c.Backend = name
		return c, true, nil
	case len(args) == 2 && known && looksLikePath(args[1].text):
		c.Backend, c.Root = name, args[1].text
		return c, true, nil
	}
	return c, false, nil
}

func looksLikePath(s string) bool {
	return strings.Contains(s, "/") || strings.HasPrefix(s, "~") || s == "." || s == ".."
}

// parseFork reads `fork ["title"] [--backend B]`, in either order.
func parseFork(args []word) (Command, bool) {
	c := Command{Verb: VerbFork}
	for i := 0; i < len(args); i++ {
		name, value, ok := flag(args[i])
		switch {
		case ok && name == "backend" && c.Backend == "":
			if value == "" {
				i++
				if i == len(args) {
					return c, false
				}
				value = args[i].text
			}
			c.Backend = strings.ToLower(value)
		case !ok && args[i].quoted && c.Title == "" && strings.TrimSpace(args[i].text) != "":
			c.Title = args[i].text
		default:
			return c, false
		}
	}
	return c, true
}

// parseNew reads `new --from <session>`.
func parseNew(args []word) (Command, bool) {
	c := Command{Verb: VerbNew}
	if len(args) == 0 {
		return c, false
	}
	name, value, ok := flag(args[0])
	if !ok || name != "from" {
		return c, false
	}
	switch {
	case value != "" && len(args) == 1:
		c.From = value
	case value == "" && len(args) == 2:
		c.From = args[1].text
	}
	return c, c.From != ""
}

// parseGrants reads `grants` and `grants revoke <id>`.
func parseGrants(args []word) (Command, bool) {
	switch {
	case len(args) == 0:
		return Command{Verb: VerbGrants}, true
	case len(args) == 2 && !args[0].quoted && strings.EqualFold(args[0].text, string(VerbRevoke)) && plainName(args[1].text):
		return Command{Verb: VerbRevoke, Grant: args[1].text}, true
	}
	return Command{}, false
}

// parseTask reads `[run] [flags] [--] <task>`.
func parseTask(text string) (Command, error) {
	c := Command{Verb: VerbRun}
	rest := text
	if w, after := nextWord(rest); !w.quoted && strings.EqualFold(w.text, string(VerbRun)) {
		rest = after
	}
	for {
		w, after := nextWord(rest)
		if isDashes(w) {
			rest = after
			break
		}
		name, value, ok := flag(w)
		if !ok {
			break
		}
		target := c.flag(name)
		if target == nil {
			return c, invalid("unknown_flag", "There is no flag “"+Shown(w.text)+"”.",
				"Flags are --backend, --workspace, --model and --title; they stand before the task. "+
					"A task that begins with a dash is written after `--`.")
		}
		if value == "" {
			var v word
			v, after = nextWord(after)
			value = v.text
			if v.text == "" || (!v.quoted && isFlag(v)) {
				return c, invalid("missing_value", "The flag --"+name+" needs a value.", "For example: "+flagExample(name)+".")
			}
		}
		if *target != "" {
			return c, invalid("repeated_flag", "The flag --"+name+" is given twice.", "Give it once.")
		}
		*target = value
		rest = after
	}
	c.Backend = strings.ToLower(c.Backend)
	c.Task = strings.TrimSpace(rest)
	if c.Task == "" {
		return c, invalid("empty_task", "There is no task in that command.", "Write what the agent should do after the flags.")
	}
	return c, nil
}

func (c *Command) flag(name string) *string {
	switch name {
	case "backend":
		return &c.Backend
	case "workspace":
		return &c.Workspace
	case "model":
		return &c.Model
	case "title":
		return &c.Title
	}
	return nil
}

func flagExample(name string) string {
	switch name {
	case "backend":
		return "--backend local"
	case "title":
		return `--title "fix the flaky test"`
	}
	return "--" + name + " NAME"
}

// word is one word of a command, without its quotes.
type word struct {
	text   string
	quoted bool
}

// maxWords is more than any command has. Looking no further keeps parsing linear
// in the text, whatever quotes are in it.
const maxWords = 6

// split returns the words of text, and false where it has too many for a
// command.
func split(text string) ([]word, bool) {
	var words []word
	for rest := text; len(words) <= maxWords; {
		w, after := nextWord(rest)
		if w.text == "" && !w.quoted {
			return words, len(words) > 0
		}
		words = append(words, w)
		rest = after
	}
	return nil, false
}

// quotes maps an opening quote to the ones that close it. Phones and Slack turn
// straight quotes into curly ones.
var quotes = map[rune]string{'"': "\"”“", '“': "”\"", '„': "“”\"", '\'': "'", '‘': "’'"}

// nextWord cuts the first word off. A quoted word ends at its closing quote,
// which white space or the end must follow; otherwise the quote is an ordinary
// character.
func nextWord(s string) (word, string) {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	if w, after, ok := quotedWord(s); ok {
		return w, after
	}
	end := strings.IndexFunc(s, unicode.IsSpace)
	if end < 0 {
		end = len(s)
	}
	w := s[:end]
	// --title="two words": the quote opens after the equals sign.
	if eq := strings.IndexByte(w, '='); eq > 0 && strings.HasPrefix(w, "-") {
		if v, after, ok := quotedWord(s[eq+1:]); ok {
			return word{text: w[:eq+1] + v.text}, after
		}
	}
	return word{text: w}, s[end:]
}

func quotedWord(s string) (word, string, bool) {
	open, size := utf8.DecodeRuneInString(s)
	closing, ok := quotes[open]
	if !ok {
		return word{}, s, false
	}
	for i, r := range s[size:] {
		if !strings.ContainsRune(closing, r) {
			continue
		}
		after := s[size+i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(after)
		if after == "" || unicode.IsSpace(next) {
			return word{text: s[size : size+i], quoted: true}, after, true
		}
	}
	return word{}, s, false
}

func isDashes(w word) bool { return !w.quoted && (w.text == "--" || w.text == "—") }

func isFlag(w word) bool {
	_, _, ok := flag(w)
	return ok || isDashes(w)
}

// flag reads --name, --name=value and -name. Where a phone made one long dash of
// two, only a name that is a flag's is taken as one. A dash before a digit or
// alone is text.
func flag(w word) (name, value string, ok bool) {
	if w.quoted {
		return "", "", false
	}
	s, long := w.text, false
	switch {
	case strings.HasPrefix(s, "--"):
		s = s[2:]
	case strings.HasPrefix(s, "-"):
		s = s[1:]
	case strings.HasPrefix(s, "—"), strings.HasPrefix(s, "–"):
		s, long = s[len("—"):], true
	default:
		return "", "", false
	}
	name, value, _ = strings.Cut(s, "=")
	r, _ := utf8.DecodeRuneInString(name)
	if !unicode.IsLetter(r) {
		return "", "", false
	}
	if long && (&Command{}).flag(name) == nil && name != "from" {
		return "", "", false
	}
	return name, value, true
}

// plainName accepts what a model's name is made of.
func plainName(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/-@", r)) {
			return false
		}
	}
	return s != "" && s[0] != '-'
}

// Addressed reports whether text begins with one of the prefixes (such as
// "/agent" and "@countersign") as a word of its own, and returns what follows.
// Case does not matter.
func Addressed(text string, prefixes ...string) (string, bool) {
	t := strings.TrimLeftFunc(text, unicode.IsSpace)
	for _, p := range prefixes {
		if len(t) < len(p) || !strings.EqualFold(t[:len(p)], p) {
			continue
		}
		rest := t[len(p):]
		r, _ := utf8.DecodeRuneInString(rest)
		if rest == "" || unicode.IsSpace(r) {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
