package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// Fetcher is what a [Poster] of a platform is too on which people attach files.
type Fetcher interface {
	// Fetch returns the content of a file that came with a message, at most limit
	// bytes. What will not be had however often it is asked for is a
	// [*FetchError].
	Fetch(ctx context.Context, t workflows.Thread, message string, a workflows.Attachment, limit int64) ([]byte, error)
}

// FetchError says why a file cannot be had, as a phrase for people: "it was
// deleted".
type FetchError struct{ Why string }

func (e *FetchError) Error() string { return e.Why }

// Attach takes as many files as one message may bring, and notes what is left out.
// The event's text stays what was typed: files make no task of a command.
func Attach(ev *Event, files []workflows.Attachment) {
	if len(files) == 0 || ev.EditedAt != "" { // an edit brings them no second time
		return
	}
	var left []string
	var sum int64
	for _, f := range files {
		f.Name = CutBytes(Shown(f.Name), 200)
		label := Code(f.Name) + " (" + Size(f.Bytes) + ")"
		switch {
		case f.Bytes > workflows.MaxFileBytes:
			left = append(left, label+" is larger than "+Size(workflows.MaxFileBytes))
		case len(ev.Attachments) == workflows.MaxAttached:
			left = append(left, fmt.Sprintf("%s is more than the %d files that one message brings", label, workflows.MaxAttached))
		case sum+f.Bytes > workflows.MaxAttachedBytes:
			left = append(left, label+" is more than the "+Size(workflows.MaxAttachedBytes)+" that one message brings")
		default:
			sum += f.Bytes
			ev.Attachments = append(ev.Attachments, f)
		}
	}
	const most = 10
	if len(left) > most {
		left = append(left[:most], fmt.Sprintf("and %d more", len(left)-most))
	}
	// Backticks would be commands to the offline model.
	ev.LeftOut = strings.ReplaceAll(strings.Join(left, "; "), "`", "\"")
}

// withFiles is a message's text with what its files add to it: those that are left
// out, and something where there is no other text.
func withFiles(ev Event, text string) string {
	if ev.LeftOut != "" {
		text = strings.TrimSpace(text + "\n\n(Attached and not passed on: " + ev.LeftOut + ".)")
	}
	if strings.TrimSpace(text) == "" && len(ev.Attachments) > 0 {
		return filesAlone
	}
	return text
}

// titleOf makes a session's title of its task, or of the files that are all of it.
func titleOf(ev Event, task string) string {
	if task != filesAlone || len(ev.Attachments) == 0 {
		return TitleOf(task)
	}
	names := make([]string, len(ev.Attachments))
	for i, f := range ev.Attachments {
		names[i] = f.Name
	}
	return TitleOf("Attached: " + strings.Join(names, ", "))
}

// Empty reports that an event has neither a text nor a file.
func (ev Event) Empty() bool { return strings.TrimSpace(withFiles(ev, ev.Text)) == "" }

// filesAlone stands for the text of a message that has files and no text.
const filesAlone = "(Files without a text.)"

// withoutFiles says with a command's reply that the files which came with it go
// nowhere: only tasks and messages bring files.
func withoutFiles(ev Event, reply Reply) Reply {
	if len(ev.Attachments) == 0 && ev.LeftOut == "" {
		return reply
	}
	if reply.Text == "" {
		reply.Private = true // the session itself shows what was done
	}
	reply.Text = strings.TrimSpace(reply.Text + "\n\nThe attached files were not used: a command takes none. Send them with a message to the agent.")
	return reply
}

// FetchFiles brings what people attached into the blob store: the sandbox never
// has the bot's token. A file that cannot be had comes back with the reason.
func (d *Delivery) FetchFiles(ctx context.Context, in workflows.FetchFilesInput) (workflows.FetchFilesResult, error) {
	stop := beat(ctx, nil)
	defer stop()
	var res workflows.FetchFilesResult
	fetcher, ok := d.Poster.(Fetcher)
	for _, a := range in.Attachments {
		f := workflows.FetchedFile{FileRef: workflows.FileRef{Name: a.Name, Bytes: a.Bytes}}
		data, err := []byte(nil), error(&FetchError{"this platform gives no files"})
		if ok {
			data, err = fetcher.Fetch(ctx, in.Thread, in.Message, a, workflows.MaxFileBytes)
		}
		var never *FetchError
		switch {
		case errors.As(err, &never):
			d.Log.Info("Attached file was not fetched", telemetry.KeyWorkflowID, in.WorkflowID, telemetry.KeyError, err)
			f.Problem = never.Why
		case err != nil:
			return res, d.fail(ctx, "fetching an attached file", err)
		default:
			f.Bytes = int64(len(data))
			if f.Ref, err = d.Blobs.Put(ctx, owned.Prefix(owned.Attached, in.WorkflowID), data); err != nil {
				return res, fmt.Errorf("keeping an attached file: %w", err)
			}
		}
		res.Files = append(res.Files, f)
		activity.RecordHeartbeat(ctx)
	}
	return res, nil
}

// withFile reads the file that a message shows. One that is not kept any more is
// said to be missing.
func (d *Delivery) withFile(ctx context.Context, c *Content) error {
	if c.View.File == nil {
		return nil
	}
	data, err := d.Blobs.Get(ctx, c.View.File.Ref)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrBadKey):
		c.View.File = nil
		c.Text += " It is no longer kept; ask for it again."
		return nil
	case err != nil:
		return fmt.Errorf("reading its file: %w", err)
	}
	c.File = &File{Name: c.View.File.Name, Data: data}
	return nil
}

// Download gets a file over HTTP for a [Fetcher], from one of the hosts that the
// platform keeps files on; elsewhere, also by a redirect, nothing is asked for.
type Download struct {
	Client *http.Client
	// Allowed reports whether files may come from an address.
	Allowed func(*url.URL) bool
	// Token, if set, goes along as a bearer token.
	Token string
}

// Get returns at most limit bytes.
func (d Download) Get(ctx context.Context, address string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || !d.Allowed(u) {
		return nil, &FetchError{"its address is none of the platform's own"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &FetchError{"its address is none"}
	}
	if d.Token != "" {
		req.Header.Set("Authorization", "Bearer "+d.Token)
	}
	client := *d.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err // the address may be a capability
		}
		return nil, fmt.Errorf("downloading a file: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("downloading a file: the server answered %s", resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, &FetchError{fmt.Sprintf("the platform does not give it (status %d)", resp.StatusCode)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("downloading a file: %w", err)
	case int64(len(data)) > limit:
		return nil, &FetchError{"it is larger than " + Size(limit)}
	}
	return data, nil
}
