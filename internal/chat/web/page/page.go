// Package page is the browser's side of the built-in web chat: the files that a
// server hands out as they are. There is no build step, and the page asks nobody
// but the server that it came from.
//
// The page reads the API of package web. Of it these may be missing, and then the
// page shows the message's text instead:
//
//   - GET /api/v1/meta: {"you","act_as","people":[],"backends":[{"name","isolated"}],
//     "default_backend","models":[],"notices":[],"commands":[{"name","usage","does",
//     "thread"}],"attach":{"file_bytes","files","bytes"},"last_event"}. attach is what
//     files a message may bring; without it none are offered. last_event is the newest event's ID: the page follows
//     /events?after=last_event and only then reads the thread, so that nothing falls
//     between the two.
//   - GET /api/v1/channels: [{"id","title"}]; GET /api/v1/channels/{c}/messages: what
//     was said there without opening a session.
//   - GET /api/v1/events: a comment line at least every 20 s, since the page takes
//     45 s of silence for a dead connection; 410 when "after" is no longer known.
//   - A message's "header" and "turn": workflows.HeaderView and workflows.TurnView as
//     they are, so that times are shown in the reader's zone; "deleted": true takes
//     the message away. A tool call's "started_at" and "note".
//   - An approval's "required", "approvers", "requested_by", "workspace", "queued",
//     "decided_at", "call_id", "call_state", "exit_code", "duration_ms", "unknown_run",
//     "outcome" (the line that takes the buttons' place), "requester_may_approve",
//     "break_glass" (who may approve alone), "edited_by" and "original" (who changed
//     the command and what it was), "broke_glass", "widened", "remark", "text" (the
//     changes asked for) and, in a vote, "reason"; a person is a name or a
//     workflows.Actor.
//   - GET /api/v1/threads/{t}/grants: [{"id","command","by","at","until"}].
//   - POST /api/v1/files?name=…: keeps the body and answers {"id","name","bytes"}; a
//     posted message's "files" is a list of such answers.
//   - A click's "values": "digest", "reason" (with approve a note), "changes" (with deny), "command" and
//     "break_glass" (with approve).
//   - A click's answer may have "review", a chat.Review; without it "text" is shown.
//     That on "details" may have "details": [{"n","id","command","outcome","facts":[],
//     "ran"}], a turn's calls.
//   - A post's answer may have "text", for the speaker alone, and "opened", the
//     thread that a command opened.
//   - Texts of headers, turns, outcomes and notices may hold times as RFC 3339 in UTC
//     (2026-11-29T15:04:05Z); they are shown as clock times of the reader's zone. A
//     link to #/t/<thread> leads to that thread.
package page

import "embed"

// FS holds index.html and what it refers to, all in one directory.
//
//go:embed index.html *.css *.js *.svg
var FS embed.FS

// ContentSecurityPolicy is the value of the header that index.html is to be
// served with: only files of the same server, nothing inline, no text ever
// becomes markup, and no other site may frame the page.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"
