package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"go.temporal.io/sdk/activity"
)

// endWithin bounds the request that ends a response which nobody waits for.
const endWithin = 2 * time.Second

// resume takes up a response that an attempt before has begun and that went on
// without it. It returns nothing where there is none, or where the server no
// longer knows it: then the request is made anew.
func (c *client) resume(ctx context.Context, p responses.ResponseNewParams, b *beat) (*responses.Response, error) {
	id := b.response()
	if id == "" || !p.Background.Value {
		return nil, nil
	}
	var res *http.Response
	s := c.service.GetStreaming(ctx, id, responses.ResponseGetParams{}, option.WithQuery("stream", "true"), option.WithResponseInto(&res))
	if err := s.Err(); err != nil {
		b.detached("")
		if res != nil && res.StatusCode < http.StatusInternalServerError {
			return nil, nil // the server refuses: it has no such response
		}
		return nil, unavailable("The model's server at "+c.host+" cannot be reached.", err)
	}
	defer func() { _ = s.Close() }() // it was read as far as it matters
	response, err := follow(ssestream.NewDecoder(res), true, b)
	if err != nil {
		return nil, unavailable("The model's server broke off in the middle of its answer.", err)
	}
	b.answered()
	return response, b.ended(responseFailure(response))
}

// endDetached ends a response that goes on without its reader, when a person has
// stopped the turn. A worker that stops leaves it to the next attempt.
func (c *client) endDetached(ctx context.Context, b *beat) {
	id := b.response()
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return
	default:
	}
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	_, _ = c.service.Cancel(ctx, id) // it ends by itself, later
}

// compact asks the server to condense a conversation.
func (c *client) compact(ctx context.Context, p responses.ResponseCompactParams, b *beat) (*responses.CompactedResponse, error) {
	timed, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var res *http.Response
	b.sent()
	response, err := c.service.Compact(timed, p, option.WithResponseInto(&res))
	if err == nil && response != nil {
		b.answered()
		return response, nil
	}
	return nil, c.failed(ctx, timed, string(p.Model), res, nil, err, b)
}
