package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// errBroken is a stream that ended before the response was whole.
var errBroken = errors.New("the stream ended before the response did")

// call makes one HTTP request. Its errors are a [refusal], a [*failure] or the
// context's. What is not known to have ended on the server stays counted as
// unanswered.
func (c *client) call(ctx context.Context, p responses.ResponseNewParams, b *beat) (*responses.Response, error) {
	timed, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var res *http.Response
	var response *responses.Response
	var err error
	if response, err := c.resume(timed, p, b); response != nil || err != nil {
		return response, err
	}
	b.sent()
	if c.can(p.Model, canStream) {
		response, err = c.stream(timed, p, &res, b)
	} else {
		p.Background = param.Opt[bool]{} // nothing would tell its ID in time
		response, err = c.service.New(timed, p, option.WithResponseInto(&res))
	}
	if ctx.Err() != nil {
		c.endDetached(ctx, b)
	}
	if err = c.failed(ctx, timed, p.Model, res, response, err, b); err != nil {
		return nil, err
	}
	return response, nil
}

// failed tells what went wrong with a request, if anything.
func (c *client) failed(ctx, timed context.Context, model string, res *http.Response, response *responses.Response, err error, b *beat) error {
	switch {
	case err == nil && response != nil:
		b.answered()
		return b.ended(responseFailure(response))
	case err == nil:
		b.answered()
		return unavailable("The model's server sent an empty response.", nil)
	case res != nil && res.StatusCode >= http.StatusBadRequest:
		b.answered()
		return c.refused(res, err, model)
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil:
		return unavailable(fmt.Sprintf("The model did not answer within %s.", c.timeout), err)
	case errors.Is(err, errBroken):
		return unavailable("The model's server broke off in the middle of its answer.", err)
	case isFailure(err):
		b.answered()
		return err
	case res != nil:
		b.answered()
		return c.unreadable(res, err)
	}
	if notSent(err) {
		b.answered()
	}
	return unavailable("The model's server at "+c.host+" cannot be reached.", err)
}

func isFailure(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// stream makes a request whose answer comes in pieces, which b is told of. A
// server that answers at once instead is taken at its word.
func (c *client) stream(ctx context.Context, p responses.ResponseNewParams, res **http.Response, b *beat) (*responses.Response, error) {
	s := c.service.NewStreaming(ctx, p, option.WithResponseInto(res))
	if err := s.Err(); err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // it was read as far as it matters
	if kind := (*res).Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return whole((*res).Body, kind)
	}
	// Read here, not by s: its events are decoded as a whole, which is slow, and
	// refuses what it does not know.
	d := ssestream.NewDecoder(*res)
	return follow(d, p.Background.Value, b)
}

// follow reads events until the response's last one.
func follow(d ssestream.Decoder, detached bool, b *beat) (*responses.Response, error) {
	items := map[int]json.RawMessage{}
	for d.Next() {
		e := streamed{}
		if json.Unmarshal(d.Event().Data, &e) != nil {
			continue // a remark such as [DONE]: nothing to act on
		}
		if e.Type == "response.created" && detached {
			begun := struct {
				ID string `json:"id"`
			}{}
			_ = json.Unmarshal(e.Response, &begun) // without one it is asked for anew
			b.detached(begun.ID)
		}
		response, err := event(e, items, b)
		if response != nil || err != nil {
			return response, err
		}
	}
	return nil, errors.Join(errBroken, d.Err())
}

// whole reads a response that was not streamed.
func whole(body io.Reader, kind string) (*responses.Response, error) {
	if !strings.Contains(kind, "json") {
		return nil, fmt.Errorf("content type %q", kind)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, errors.Join(errBroken, err)
	}
	var response *responses.Response
	if err := json.Unmarshal(data, &response); err != nil {
		return nil, fmt.Errorf("reading a response: %w", err)
	}
	return response, nil
}

// streamed are the fields of an event that are looked at.
type streamed struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"`
	Index    int             `json:"output_index"`
	Item     json.RawMessage `json:"item"`
	Response json.RawMessage `json:"response"`
	// An error event holds its fields itself, or in an object.
	eventError
	Error *eventError `json:"error"`
}

type eventError struct {
	Code    loose `json:"code"`
	Param   loose `json:"param"`
	Message loose `json:"message"`
}

// loose is a string; what is none, such as the number that some servers give as a
// code, reads as empty instead of hiding the event that it stands in.
type loose string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *loose) UnmarshalJSON(data []byte) error {
	text := ""
	if json.Unmarshal(data, &text) == nil {
		*l = loose(text)
	}
	return nil
}

// event takes one event in, and returns the response with its last one.
func event(e streamed, items map[int]json.RawMessage, b *beat) (*responses.Response, error) {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		b.says(textOf(e.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		b.thinks(textOf(e.Delta))
	case "response.reasoning_summary_part.added":
		b.thinks("\n")
	case "response.output_item.done":
		items[e.Index] = e.Item
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return ended(e.Response, items)
	case "error":
		if e.Error != nil {
			e.eventError = *e.Error
		}
		return nil, failedWith(codeOf(string(e.Code), string(e.Message)), string(e.Param))
	}
	return nil, nil
}

func textOf(raw json.RawMessage) string {
	text := ""
	_ = json.Unmarshal(raw, &text) // of another form: nothing to show
	return text
}

// ended reads the response that a stream ended with. Some servers leave its
// output to the events before it.
func ended(raw json.RawMessage, items map[int]json.RawMessage) (*responses.Response, error) {
	if o, err := readObject(raw); err == nil && len(items) > 0 && o.empty("output") {
		var all []json.RawMessage
		indexes := make([]int, 0, len(items))
		for i := range items {
			indexes = append(indexes, i)
		}
		slices.Sort(indexes)
		for _, i := range indexes {
			all = append(all, items[i])
		}
		o.set("output", item(all))
		raw = o.encode()
	}
	var response *responses.Response
	if err := json.Unmarshal(raw, &response); err != nil || response == nil {
		return nil, unavailable("The model's server sent something that cannot be read.", err)
	}
	return response, nil
}
