package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// commandName is the slash command's, shortcutName that of the command on a
// message.
const (
	commandName  = "agent"
	shortcutName = "Session commands"
)

// Names of typed options; modals name their inputs alike.
const (
	optionTask      = "task"
	optionBackend   = "backend"
	optionWorkspace = "workspace"
	optionModel     = "model"
	optionTitle     = "title"
	optionRoot      = "root"
	optionFrom      = "from"
	optionPath      = "path"
	optionRevoke    = "revoke"
	optionSession   = "session"
	optionFile      = "file" // the first; others have a number behind
)

// maxTaskFiles is how many files a task by command brings: each is an option of its
// own. A message brings [workflows.MaxAttached].
const maxTaskFiles = 3

// command is what is registered, with the fields that we set: what Discord adds is
// left out when it is compared.
type command struct {
	Name        string          `json:"name"`
	Type        int             `json:"type"`
	Description string          `json:"description,omitempty"`
	Contexts    []int           `json:"contexts,omitempty"`
	Options     []commandOption `json:"options,omitempty"`
}

type commandOption struct {
	Type         int             `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Required     bool            `json:"required,omitempty"`
	Autocomplete bool            `json:"autocomplete,omitempty"`
	MaxLength    int             `json:"max_length,omitempty"`
	Options      []commandOption `json:"options,omitempty"`
}

// inGuilds is the context of a server; sessions are threads, which are only there.
const inGuilds = 0

// commands are those of the application. Who may give them is checked when they
// are given: hiding them would check nothing.
func commands() []command {
	text := func(name, description string, most int, required bool) commandOption {
		return commandOption{Type: int(discordgo.ApplicationCommandOptionString), Name: name, Description: description, MaxLength: most, Required: required}
	}
	listed := func(name, description string, required bool) commandOption {
		o := text(name, description, 0, required)
		o.Autocomplete = true
		return o
	}
	session := listed(optionSession, "The session; by default that of this thread", false)
	backend := listed(optionBackend, "Kind of sandbox", false)
	sub := func(v chat.Verb, description string, options ...commandOption) commandOption {
		return commandOption{Type: int(discordgo.ApplicationCommandOptionSubCommand), Name: string(v), Description: description, Options: options}
	}
	return []command{
		{Name: commandName, Type: int(discordgo.ChatApplicationCommand), Description: "Give the agent a task, or its session a command", Contexts: []int{inGuilds}, Options: []commandOption{
			sub(chat.VerbRun, "Opens a thread and its session and runs a task; in a session's thread: a message to it", append([]commandOption{
				text(optionTask, "What the agent should do", maxTask, true), backend,
				listed(optionWorkspace, "Workspace of the new session", false), text(optionModel, "Model of the new session", 200, false),
				text(optionTitle, "Title of the new session", 200, false)}, taskFiles()...)...),
			sub(chat.VerbNew, "A new session from another's files", listed(optionFrom, "The session to copy, also a destroyed one", true)),
			sub(chat.VerbSwitch, "Moves the session to another backend", backend, listed(optionRoot, "Root directory, on local only", false), session),
			sub(chat.VerbFork, "Copies workspace and conversation into a new thread", text(optionTitle, "Title of the copy", 200, false), backend, session),
			sub(chat.VerbTitle, "Renames the session", text(optionTitle, "The new title", 200, true), session),
			sub(chat.VerbModel, "Changes the model from the next turn on", text(optionModel, "The model's name", 200, true), session),
			sub(chat.VerbStop, "Ends the running turn and its command", session),
			sub(chat.VerbPause, "Releases the sandbox until the next message", session),
			sub(chat.VerbStatus, "How the session stands", session),
			sub(chat.VerbHistory, "The conversation in short", session),
			sub(chat.VerbGrants, "Standing permissions; ends one", listed(optionRevoke, "The permission to end", false), session),
			sub(chat.VerbFiles, "Workspace files to the thread", text(optionPath, "Path in the workspace", 1000, false), session),
			sub(chat.VerbDone, "Asks whether to keep the session or destroy it", session),
			sub(chat.VerbDestroy, "Ends the session, after a question", session),
			sub(chat.VerbList, "All sessions as a tree"),
			sub(chat.VerbHelp, "The commands"),
		}},
		{Name: shortcutName, Type: int(discordgo.MessageApplicationCommand), Contexts: []int{inGuilds}},
	}
}

// taskFiles are the options that take the files of a task.
func taskFiles() []commandOption {
	out := make([]commandOption, maxTaskFiles)
	for n := range out {
		out[n] = commandOption{Type: int(discordgo.ApplicationCommandOptionAttachment), Name: optionFile, Description: "A file for the task, up to " + chat.Size(workflows.MaxFileBytes)}
		if n > 0 {
			out[n].Name, out[n].Description = fmt.Sprint(optionFile, n+1), "Another file"
		}
	}
	return out
}

// maxTask is what a string option holds (Application Commands, Option Structure).
const maxTask = 6000

// registerAll registers the commands, and tries again until it has or ctx ends.
func (a *App) registerAll(ctx context.Context) {
	for delay := 5 * time.Second; ; delay = min(2*delay, 10*time.Minute) {
		err := a.register(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		a.log.Error("Commands could not be registered", telemetry.KeyError, err)
		if sleep(ctx, delay) != nil {
			return
		}
	}
}

// register registers the commands where they are not what they should be: Discord
// counts creations, so that what is there already is left alone.
func (a *App) register(ctx context.Context) error {
	base := "/applications/" + a.self.App
	if len(a.cfg.Guilds) == 0 {
		return a.registerAt(ctx, base+"/commands", commands())
	}
	// Commands everywhere and in a server would be shown twice there.
	if err := a.registerAt(ctx, base+"/commands", []command{}); err != nil {
		return err
	}
	var errs error
	for _, guild := range a.cfg.Guilds {
		if err := a.registerAt(ctx, base+"/guilds/"+guild+"/commands", commands()); err != nil {
			errs = errors.Join(errs, fmt.Errorf("server %s: %w", guild, err))
		}
	}
	return errs
}

func (a *App) registerAt(ctx context.Context, path string, want []command) error {
	var have []command
	if err := a.api.call(ctx, http.MethodGet, path, nil, &have); err != nil {
		return err
	}
	if same(have, want) {
		return nil
	}
	if err := a.api.call(ctx, http.MethodPut, path, want, nil); err != nil {
		return err
	}
	a.log.Info("Commands registered", "path", path, "commands", len(want))
	return nil
}

// same reports whether two sets of commands are the same in what we set.
func same(a, b []command) bool {
	x, xerr := json.Marshal(byName(a))
	y, yerr := json.Marshal(byName(b))
	return xerr == nil && yerr == nil && string(x) == string(y)
}

func byName(list []command) map[string]command {
	out := map[string]command{}
	for _, c := range list {
		out[fmt.Sprint(c.Type, c.Name)] = c
	}
	return out
}
