package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/countersign/countersign/internal/workflows"
)

// tools returns the tools in the form of the API, with strict schemas: every
// property is required, and what may be left out is nullable.
func tools() []responses.ToolUnionParam {
	return []responses.ToolUnionParam{
		tool(workflows.ToolShell, "Run one command in the sandbox's shell and get its exit code, stdout and stderr. "+
			"Each call is a new process: directory changes and variables do not carry over.", object{
			"command": object{"type": "string", "description": "The command line, run by the shell named in the instructions."},
			"cwd": object{
				"type":        []string{"string", "null"},
				"description": "Directory to run in, absolute or relative to the workspace; null is the workspace's root.",
			},
			"timeout_seconds": object{
				"type":        []string{"integer", "null"},
				"description": "End the command after this many seconds; null is the default for its kind.",
			},
			"yield_time_ms": object{
				"type": []string{"integer", "null"},
				"description": "Let a command that runs longer than this go on in the background, with its stdin open: the call returns what it " +
					"printed so far and a session for write_stdin. For servers, watchers and programs that ask. You are told when it has ended. null waits for its end.",
			},
			"tty": object{
				"type": []string{"boolean", "null"},
				"description": "Run it on a terminal of 120 columns and 40 rows, for programs that do not ask without one; it may go on in the background, " +
					"as with yield_time_ms, which is then 10000 where it is null. stdout is what the terminal shows, errors included. null is false.",
			},
		}),
		tool(workflows.ToolWriteStdin, "Talk to a command that goes on in the background: send it text, or only read what it has printed since. "+
			"What is sent is judged like a command: for most programs people are asked.", object{
			"session_id": object{"type": "string", "description": "The session that shell returned."},
			"chars": object{
				"type": []string{"string", "null"},
				"description": "Sent as it is: end a line with a newline. \\u0003 alone is Ctrl-C, \\u0004 alone or last is Ctrl-D. " +
					"To a terminal they are keys, which it echoes, and people are always asked but for these two alone. null or empty only reads on.",
			},
			"yield_time_ms": object{
				"type":        []string{"integer", "null"},
				"description": "How long to wait for output, at most 300000; it returns early only when the command ends. null is 1000, or 5000 without chars.",
			},
		}),
		tool(workflows.ToolReadFile, "Read one text file.", object{
			"path": object{"type": "string", "description": "Absolute, or relative to the workspace."},
		}),
		tool(workflows.ToolViewImage, "Look at one image file of the workspace: PNG, JPEG, WebP, or GIF without animation; at most 20 MB.", object{
			"path": object{"type": "string", "description": "Absolute, or relative to the workspace."},
		}),
		tool(workflows.ToolWriteFile, "Write one text file, in place of what it held; missing directories are made.", object{
			"path":    object{"type": "string", "description": "Absolute, or relative to the workspace."},
			"content": object{"type": "string", "description": "The whole new content."},
		}),
		tool(workflows.ToolListFiles, "List a directory of the workspace: names, kinds and sizes.", object{
			"path": object{
				"type":        []string{"string", "null"},
				"description": "A directory, absolute or relative to the workspace; null is the workspace's root.",
			},
			"depth": object{
				"type":        []string{"integer", "null"},
				"description": "How many levels to list; null is 1, the directory's own entries.",
			},
		}),
		tool(workflows.ToolApplyPatch, patchDescription, object{
			"patch": object{"type": "string", "description": "The whole patch, from *** Begin Patch to *** End Patch."},
		}),
	}
}

const patchDescription = `Create, update, move and delete text files of the workspace by one patch: all of it is applied or none. Format:
*** Begin Patch
*** Add File: path
+every line of the new file, after a plus sign
*** Update File: path
*** Move to: new path (only to rename)
@@ the line of a class or function that the change is in (optional, may be repeated to go deeper)
 lines of context as they stand in the file, after a blank
-a line to take away
+a line to put there
*** Delete File: path
*** End Patch
Hunks of a file follow its order and are found by their context, which needs about three lines before and after each change; there are no line numbers. "*** End of File" behind a hunk says that it stands at the file's end.`

type object = map[string]any

func tool(name, description string, properties object) responses.ToolUnionParam {
	var required []string
	for _, p := range []string{"command", "cwd", "timeout_seconds", "session_id", "chars", "yield_time_ms", "tty", "path", "content", "depth", "patch"} { // a stable order: caching
		if _, ok := properties[p]; ok {
			required = append(required, p)
		}
	}
	return responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
		Name:        name,
		Description: param.NewOpt(description),
		Strict:      param.NewOpt(true),
		Parameters: object{
			"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		},
	}}
}

// checkCall returns what is shown of a call, or what is wrong with it.
func checkCall(name, arguments string) (shown, bad string) {
	switch name {
	case workflows.ToolShell:
		args := workflows.ShellArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		switch {
		case strings.TrimSpace(args.Command) == "":
			return "", "The call has no command. Give one in \"command\"."
		case args.TimeoutSeconds < 0:
			return "", "\"timeout_seconds\" must not be negative."
		case args.YieldTimeMS < 0:
			return "", "\"yield_time_ms\" must not be negative."
		}
		return args.Command, ""
	case workflows.ToolWriteStdin:
		args := workflows.WriteStdinArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		switch {
		case strings.TrimSpace(args.SessionID) == "":
			return "", "The call has no session. Give the one that the shell tool returned in \"session_id\"."
		case args.YieldTimeMS < 0:
			return "", "\"yield_time_ms\" must not be negative."
		case args.Chars == "":
			return "read on from " + args.SessionID, ""
		}
		return "to " + args.SessionID + ": " + args.Chars, ""
	case workflows.ToolReadFile, workflows.ToolViewImage:
		args := workflows.ReadFileArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		return withPath(name, args.Path)
	case workflows.ToolWriteFile:
		args := workflows.WriteFileArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		return withPath(name, args.Path)
	}
	return checkTreeCall(name, arguments)
}

// checkTreeCall is checkCall for the tools that are about several files.
func checkTreeCall(name, arguments string) (shown, bad string) {
	switch name {
	case workflows.ToolListFiles:
		args := workflows.ListFilesArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		if args.Depth < 0 {
			return "", "\"depth\" must not be negative."
		}
		return strings.TrimSpace(name + " " + args.Path), ""
	case workflows.ToolApplyPatch:
		args := workflows.ApplyPatchArgs{}
		if bad := readArgs(arguments, &args); bad != "" {
			return "", bad
		}
		if strings.TrimSpace(args.Patch) == "" {
			return "", "The call has no patch. Give one in \"patch\"."
		}
		return name + "\n" + args.Patch, ""
	}
	return "", fmt.Sprintf("There is no tool named %q. Use one of %s.", cut(name, 64), strings.Join([]string{
		workflows.ToolShell, workflows.ToolWriteStdin, workflows.ToolReadFile, workflows.ToolViewImage,
		workflows.ToolWriteFile, workflows.ToolListFiles, workflows.ToolApplyPatch,
	}, ", "))
}

// Bounds and defaults of yield_time_ms. A command on a terminal never ends by
// itself as a rule, so its call does not wait for that.
const (
	minYield  = 250 * time.Millisecond
	maxYield  = 5 * time.Minute
	yieldTTY  = 10 * time.Second
	yieldSent = time.Second
	yieldRead = 5 * time.Second
)

// yieldOf is how long a call may hold its step, and the running command that it
// talks to.
func yieldOf(name, arguments string) (yield time.Duration, session string) {
	switch name {
	case workflows.ToolShell:
		args := workflows.ShellArgs{}
		if readArgs(arguments, &args) != "" || !args.Interactive() {
			return 0, ""
		}
		return yieldFor(args.YieldTimeMS, yieldTTY), ""
	case workflows.ToolWriteStdin:
		args := workflows.WriteStdinArgs{}
		if readArgs(arguments, &args) != "" {
			return 0, ""
		}
		if args.Chars == "" {
			return yieldFor(args.YieldTimeMS, yieldRead), args.SessionID
		}
		return yieldFor(args.YieldTimeMS, yieldSent), args.SessionID
	}
	return 0, ""
}

func yieldFor(ms int, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return min(max(time.Duration(min(ms, int(maxYield/time.Millisecond)))*time.Millisecond, minYield), maxYield)
}

func withPath(name, path string) (shown, bad string) {
	if strings.TrimSpace(path) == "" {
		return "", "The call has no path. Give one in \"path\"."
	}
	return name + " " + path, ""
}

// readArgs decodes a call's arguments; an argument that the tool does not have
// is refused, since leaving it out might run something else than was meant.
func readArgs(arguments string, into any) (bad string) {
	if trimmed := strings.TrimSpace(arguments); !strings.HasPrefix(trimmed, "{") {
		return "The call's arguments are no JSON object."
	}
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Sprintf("The argument %q has the wrong type: it must be %s.", wrongType.Field, kind(wrongType))
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		return "The call has an argument that the tool does not have: " + cut(strings.TrimPrefix(err.Error(), "json: unknown field "), 100) + "."
	case err != nil:
		return "The call's arguments are no JSON object."
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "The call's arguments hold more than one JSON object."
	}
	return ""
}

func kind(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a " + e.Type.Kind().String()
}
