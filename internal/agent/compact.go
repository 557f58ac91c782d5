package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// DefaultCompactAt is the part of a window, in percent, at which a
	// conversation is condensed: what is left has room for an answer and its
	// reasoning.
	DefaultCompactAt = 80

	// bytesPerToken is what text takes at least, on average: counted low, so that
	// the window is not found full by surprise.
	bytesPerToken = 3

	// keepMessages is how many bytes of the newest messages stand beside a summary
	// of our own, word for word.
	keepMessages = 8 << 10 // 8 KiB

	summaryAsk = "[countersign]: The conversation is about to outgrow your window. Write a summary to go on from, for yourself: what was asked, word for word where it matters; what was done and found, with paths, commands and results; what was decided or denied, and by whom; what is under way, and what is left to do. Only the summary."

	summaryMark = "[countersign]: Earlier parts of this conversation are condensed here. The files are as they were left.\n\n"
)

// windows are the input tokens that OpenAI's models take, by the beginning of
// their names, longest first. They are assumptions, on the small side, that
// openai.windows corrects: too small a window condenses early, too large a one is
// found full by the server. Others get the smallest one.
var windows = []struct {
	name   string
	tokens int64
}{
	{"gpt-4.1", 1_000_000}, {"gpt-4o", 128_000}, {"gpt-", 272_000}, {"o3", 200_000}, {"o4", 200_000}, {"", 128_000},
}

// window is how many tokens a model takes.
func (a *Activities) window(model string) int64 {
	if n, ok := forModel(a.windows, model); ok {
		return n
	}
	for _, w := range windows {
		if strings.HasPrefix(model, w.name) {
			return w.tokens
		}
	}
	return 0
}

// effective are the records that a model gets: from the last window that it can
// read, whose items take the place of all before. The model "" reads none that
// another has sealed.
func effective(records []transcript.Record, model string) []transcript.Record {
	for i := len(records) - 1; i >= 0; i-- {
		r := records[i]
		if len(r.Window) == 0 || (r.Model != "" && r.Model != model) {
			continue
		}
		out := make([]transcript.Record, 0, len(r.Window)+len(records)-i)
		for _, w := range r.Window {
			out = append(out, transcript.Record{Item: w, At: r.At, Turn: r.Turn, Model: r.Model})
		}
		return append(out, plain(records[i+1:])...)
	}
	return plain(records)
}

// plain leaves windows out.
func plain(records []transcript.Record) []transcript.Record {
	out := make([]transcript.Record, 0, len(records))
	for _, r := range records {
		if len(r.Window) == 0 {
			out = append(out, r)
		}
	}
	return out
}

// tokens estimates what records take: what the server counted last, and what
// came since.
func tokens(records []transcript.Record) int64 {
	since := 0
	for i := len(records) - 1; i >= 0; i-- {
		if n := records[i].Tokens; n > 0 {
			return n + int64(since/bytesPerToken)
		}
		since += weight(records[i])
	}
	return int64(since / bytesPerToken)
}

// condense makes a window for a conversation that is about to outgrow the
// model's: by the server where it can, else as a summary that the model writes.
// It returns nil where there is room, or nothing to gain.
func (a *Activities) condense(ctx context.Context, q question, b *beat) (*transcript.Record, workflows.Usage, error) {
	past := effective(q.records, q.model)
	if q.model == offline.Name || tokens(past) <= a.window(q.model)*int64(a.compactAt)/100 || len(past) < 3 {
		return nil, workflows.Usage{}, nil
	}
	b.silence(true)
	defer b.silence(false)
	c := a.client(q.model)
	if c.can("", canCompact) {
		r, u, err := a.compact(ctx, c, q, past, b)
		var refused *refusal
		if !errors.As(err, &refused) || refused.kind != workflows.ErrTypeBadRequest {
			return r, u, err
		}
		if refused.status == http.StatusNotFound || refused.status == http.StatusMethodNotAllowed || refused.status == http.StatusNotImplemented {
			c.cannotDo("", canCompact)
		}
		a.log.InfoContext(ctx, "The server does not condense; the model writes a summary", telemetry.KeyWorkflowID, q.in.WorkflowID,
			"model", q.model, "status", refused.status, "code", word(refused.code))
	}
	return a.summarise(ctx, q, past, b)
}

// compact lets the server condense the conversation.
func (a *Activities) compact(ctx context.Context, c *client, q question, past []transcript.Record, b *beat) (*transcript.Record, workflows.Usage, error) {
	res, err := c.compact(ctx, responses.ResponseCompactParams{
		Model:          responses.ResponseCompactParamsModel(q.model),
		Instructions:   param.NewOpt(instructions(q.in.Sandbox, a.timeouts)),
		Input:          responses.ResponseCompactParamsInputUnion{OfResponseInputItemArray: inputList(replay(past, q.model, true, 0))},
		PromptCacheKey: param.NewOpt(cacheKey(q.in.WorkflowID)),
	}, b)
	if err != nil {
		return nil, workflows.Usage{}, err
	}
	body := struct {
		Output []json.RawMessage `json:"output"`
	}{}
	if err := json.Unmarshal([]byte(res.RawJSON()), &body); err != nil || len(body.Output) == 0 {
		return nil, workflows.Usage{}, unavailable("The model's server sent something that cannot be read.", err)
	}
	r := &transcript.Record{At: time.Now().UTC(), Turn: q.in.Turn, Model: q.model}
	for _, raw := range body.Output {
		if o, err := readObject(raw); err == nil {
			o.dropNulls()
			raw = o.encode()
		}
		r.Window = append(r.Window, raw)
	}
	return r, a.usage(res.Usage, q.model), nil
}

// summarise lets the model condense the conversation. Any model can read that.
func (a *Activities) summarise(ctx context.Context, q question, past []transcript.Record, b *beat) (*transcript.Record, workflows.Usage, error) {
	ask := q
	ask.records = append(plain(past), transcript.Record{Item: messageItem(summaryAsk)})
	ask.mute = true
	res, err := a.ask(ctx, ask, b)
	if err != nil {
		return nil, workflows.Usage{}, err
	}
	text := strings.TrimSpace(clean(res.OutputText()))
	if text == "" {
		return nil, a.usage(res.Usage, q.model), nil // the request is cut down instead, when it is refused
	}
	r := &transcript.Record{At: time.Now().UTC(), Turn: q.in.Turn}
	r.Window = append(r.Window, messageItem(summaryMark+text))
	r.Window = append(r.Window, newest(past)...)
	return r, a.usage(res.Usage, q.model), nil
}

// newest are people's last messages, in order, as many as have room.
func newest(records []transcript.Record) []json.RawMessage {
	var kept []json.RawMessage
	room := keepMessages
	for i := len(records) - 1; i >= 0; i-- {
		if !isPersons(records[i]) || records[i].Author == "" {
			continue
		}
		if room -= len(records[i].Item); room < 0 {
			break
		}
		kept = append([]json.RawMessage{records[i].Item}, kept...)
	}
	return kept
}
