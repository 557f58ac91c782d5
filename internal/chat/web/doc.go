// Package web is the built-in browser chat: a store of channels, threads and
// messages in one SQLite file, a JSON API with server-sent events, and the
// [chat.Poster] that sessions write through. The page itself is in package page.
//
// A person's message is stored invisibly first, handed to Temporal, and only
// then shown and confirmed: so a confirmed message is one that Temporal has, and
// one whose fate a crash left open is handed over again at the next start, under
// the same identity. Messages of ours are unique by thread and key, so posting
// twice gives one copy.
//
// The file is written in WAL mode with synchronous=NORMAL: a killed process
// loses nothing; a machine that loses power may lose the last moments of what is
// shown, which the sessions then show again.
//
// Files come in two steps: POST /files?name=… keeps the request's body, at most 8 MB,
// and answers {"id","name","bytes"}; a message's "files" is a list of such answers.
// A message of ours that shows a file of the workspace has "file", {"name","bytes"},
// and GET /messages/{id}/file gives it.
//
// Everything but the page's static files needs a bearer token. The server is
// meant for the machine it runs on: it checks the Host header against DNS
// rebinding and the Origin of writes, and sends no CORS headers.
package web
