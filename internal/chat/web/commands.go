package web

// command is a command as the page completes it.
type command struct {
	Name  string `json:"name"`
	Usage string `json:"usage"`
	Does  string `json:"does"`
	// Thread is true for commands that need a session's thread.
	Thread bool `json:"thread"`
}

var commands = []command{
	{"run", "run [--backend B] [--workspace W] [--model M] [--title \"T\"] [--] <task>", "opens a thread and its session, runs the task", false},
	{"stop", "stop", "ends the running turn and its command", true},
	{"status", "status", "this session: backend, turn, cost, waiting approvals", true},
	{"history", "history", "the conversation", true},
	{"list", "list", "all sessions as a tree", false},
	{"title", "title \"<name>\"", "renames the session", true},
	{"model", "model <name>", "changes the model from the next turn on", true},
	{"fork", "fork [\"title\"] [--backend B]", "copies workspace and conversation into a new thread", true},
	{"new", "new --from <session>", "a new session from another's files", false},
	{"switch", "switch [backend] [root]", "moves the session to another backend", true},
	{"files", "files [path]", "lists a directory of the workspace, or sends a file of it", true},
	{"pause", "pause", "releases the sandbox until the next message", true},
	{"done", "done", "asks whether to keep or destroy the session", true},
	{"destroy", "destroy", "ends the session, after a question", true},
	{"grants", "grants [revoke <id>]", "standing permissions; ends one", true},
	{"help", "help", "the commands", false},
}
