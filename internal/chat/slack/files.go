package slack

import (
	"context"
	"net/url"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// filesHost is where Slack keeps files that were uploaded to it.
const filesHost = "files.slack.com"

var _ chat.Fetcher = (*poster)(nil)

// Fetch returns the content of a file that somebody attached. The token goes to
// Slack's own host of files, and to no other.
func (p *poster) Fetch(ctx context.Context, _ workflows.Thread, _ string, a workflows.Attachment, limit int64) ([]byte, error) {
	var info struct {
		File struct {
			Size     int64  `json:"size"`
			Mode     string `json:"mode"`
			Download string `json:"url_private_download"`
			Private  string `json:"url_private"`
		} `json:"file"`
	}
	_, err := p.app.api.call(ctx, "files.info", url.Values{"file": {a.ID}}, &info)
	switch c := code(err); {
	case c == "file_not_found" || c == "file_deleted" || c == "not_visible":
		return nil, &chat.FetchError{Why: "Slack does not have it any more"}
	case c == "missing_scope" || c == "not_allowed_token_type":
		return nil, &chat.FetchError{Why: "the app may not read files in this Slack: it lacks the scope files:read"}
	case err != nil:
		return nil, mapped(err)
	case info.File.Mode == "external":
		return nil, &chat.FetchError{Why: "it is a link to a file outside Slack"}
	case info.File.Size > limit:
		return nil, &chat.FetchError{Why: "it is larger than " + chat.Size(limit)}
	}
	from := info.File.Download
	if from == "" {
		from = info.File.Private
	}
	data, err := chat.Download{Client: p.app.api.gate.http, Allowed: p.app.ownFile, Token: p.app.api.token}.Get(ctx, from, limit)
	if err == nil && int64(len(data)) != info.File.Size {
		return nil, &chat.FetchError{Why: "Slack did not give its content"} // such as a page to sign in
	}
	return data, err
}

// ownFile reports whether an address is on the host that Slack keeps files on; of
// a server that stands in for Slack, on that server.
func (a *App) ownFile(u *url.URL) bool {
	if a.cfg.APIURL == SlackAPI {
		return u.Scheme == "https" && u.Host == filesHost && u.User == nil
	}
	base, err := url.Parse(a.cfg.APIURL)
	return err == nil && u.Scheme == base.Scheme && u.Host == base.Host && u.User == nil
}
