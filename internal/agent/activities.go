package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/agent/mcptools"
	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// DefaultRequestTimeout bounds one model call where [Options] say nothing:
// reasoning models think for minutes, and the API itself sets no bound.
const DefaultRequestTimeout = 10 * time.Minute

// EndMark is the message that closes a turn which ended without an answer. It
// keeps the model from taking the old task up again unasked.
const EndMark = "[countersign]: The turn ended here, before it was answered. Go on with it only if you are asked to."

// Blobs is what the model side needs of the blob store; a missing key is
// blob.ErrNotFound. It must be safe for concurrent use.
type Blobs interface {
	Write(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

// Options configure [New].
type Options struct {
	// Blobs holds transcripts and long texts.
	Blobs Blobs
	// APIKey and BaseURL reach the Responses API; an empty BaseURL is OpenAI's.
	// Without both the offline model answers, whatever model is asked for.
	APIKey  telemetry.Secret
	BaseURL string
	// Model answers where a session names none; "offline" is the offline model.
	Model string
	// Prices give models a cost; a model without price costs 0.
	Prices map[string]Price
	// Stored lets the server keep responses and goes on from the last one it
	// knows; else each request holds the whole conversation. Background, with it,
	// lets a response go on without its reader, so that a retry fetches it.
	Stored, Background bool
	// MCP reaches tools of MCP servers, and Gate judges their calls; without MCP
	// there are none.
	MCP  *mcptools.Hub
	Gate ToolGate
	// Awaited returns an error where the server does not wait for an activity's attempt
	// any more, which must then call no tool; nil asks nobody.
	Awaited func(ctx context.Context, details ...any) error
	// Timeouts are told to the model; 0 takes the defaults of the settings.
	Timeouts Timeouts
	// Budgets are held before each call; Rules then says who may raise one.
	Budgets Budgets
	Rules   func(tier, channel string) workflows.ApprovalRule
	// Windows are how many tokens models take, by name; others have built-in ones.
	Windows map[string]int64
	// CompactAt is the part of the window, in percent, at which the conversation
	// is condensed; 0 takes DefaultCompactAt.
	CompactAt int
	// RequestTimeout bounds one call; 0 takes DefaultRequestTimeout.
	RequestTimeout time.Duration
	// CacheBytes bounds the transcripts kept in memory; 0 takes
	// transcript.DefaultCacheBytes.
	CacheBytes int
	// Transport makes the HTTP requests; nil takes a transport of our own.
	Transport http.RoundTripper
	// Mask masks what is shown of a tool call; nil knows the shapes of secrets only.
	Mask *mask.Masker
	// Logger may be nil.
	Logger *slog.Logger
}

// Activities are the model activities of a worker. They are safe for concurrent
// use.
type Activities struct {
	texts        texts
	transcripts  *transcript.Store
	online       *client // nil without key and base URL
	offline      *client
	defaultModel string
	prices       map[string]Price
	stored       bool
	background   bool
	mcp          *mcptools.Hub
	gate         ToolGate
	awaited      func(ctx context.Context, details ...any) error
	timeouts     Timeouts
	budgets      Budgets
	rules        func(tier, channel string) workflows.ApprovalRule
	windows      map[string]int64
	compactAt    int
	mask         *mask.Masker
	log          *slog.Logger
}

// New returns the activities. It fails when the base URL is no URL.
func New(o Options) (*Activities, error) {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.Timeouts == (Timeouts{}) {
		o.Timeouts = Timeouts{Shell: 2 * time.Minute, Install: 10 * time.Minute, Background: 30 * time.Minute}
	}
	if o.CompactAt == 0 {
		o.CompactAt = DefaultCompactAt
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Awaited == nil {
		o.Awaited = func(context.Context, ...any) error { return nil }
	}
	a := &Activities{
		texts:        texts{blobs: o.Blobs},
		transcripts:  transcript.NewStore(o.Blobs, o.CacheBytes),
		defaultModel: o.Model,
		prices:       o.Prices,
		stored:       o.Stored,
		background:   o.Stored && o.Background,
		mcp:          o.MCP,
		gate:         o.Gate,
		awaited:      o.Awaited,
		timeouts:     o.Timeouts,
		budgets:      o.Budgets,
		rules:        o.Rules,
		windows:      o.Windows,
		compactAt:    o.CompactAt,
		mask:         o.Mask,
		log:          o.Logger.With(telemetry.KeyComponent, "agent"),
	}
	a.offline = newClient(clientOptions{
		baseURL:   "http://offline.invalid/v1/",
		transport: (&offline.Model{EndMarks: []string{EndMark}}).Transport(),
		timeout:   o.RequestTimeout,
	})
	if !o.APIKey.IsSet() && o.BaseURL == "" {
		return a, nil
	}
	base, err := parseBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	a.online = newClient(clientOptions{
		baseURL: base, key: o.APIKey, transport: o.Transport, timeout: o.RequestTimeout,
	})
	return a, nil
}

// Registry is where activities are registered: a worker.
type Registry interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// Register adds the activities to a worker under their public names.
func (a *Activities) Register(r Registry) {
	r.RegisterActivityWithOptions(a.CallModel, activity.RegisterOptions{Name: workflows.ActivityCallModel})
	r.RegisterActivityWithOptions(a.JudgeMCPCall, activity.RegisterOptions{Name: workflows.ActivityJudgeMCP})
	r.RegisterActivityWithOptions(a.CheckMCPBinding, activity.RegisterOptions{Name: workflows.ActivityBindingMCP})
	r.RegisterActivityWithOptions(a.RunMCPCall, activity.RegisterOptions{Name: workflows.ActivityRunMCP})
}

// RegisterTranscripts adds what writes transcripts without asking a model, to a
// worker that model calls cannot fill.
func (a *Activities) RegisterTranscripts(r Registry) {
	r.RegisterActivityWithOptions(a.CallModel, activity.RegisterOptions{Name: workflows.ActivityCallModel})
}

// Transcripts is the store that the activities write to.
func (a *Activities) Transcripts() *transcript.Store { return a.transcripts }

// CallModel adds in.Append to the transcript, asks the model and returns what it
// wants. Nothing is recorded unless the call succeeds, so a retry, and a call
// after a failed one, pass the same Append again. With in.NoCall it only
// records, and closes the turn with [EndMark].
//
// Its errors have the types workflows.ErrTypeQuota, ErrTypeAuth and
// ErrTypeBadRequest (not retryable), ErrTypeRateLimited (with its delay),
// ErrTypeNotFound (a blob that history names is gone) and [ErrTypeUnavailable];
// their messages are two sentences for people, what happened and what it means
// for the session, and their details a string, what to do, and the number of
// requests that may have been billed.
func (a *Activities) CallModel(ctx context.Context, in workflows.ModelInput) (workflows.ModelResult, error) {
	b := startBeat(ctx, a.mask)
	defer b.stop()
	result, err := a.callModel(ctx, in, b)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return workflows.ModelResult{}, ctx.Err() // as it is, or Temporal records a failure
	}
	a.log.WarnContext(ctx, "Model call failed", telemetry.KeyWorkflowID, in.WorkflowID,
		"turn", in.Turn, "step", in.Step, "model", a.model(in), telemetry.KeyError, err)
	return workflows.ModelResult{}, forTemporal(err, b.unsure())
}

func (a *Activities) callModel(ctx context.Context, in workflows.ModelInput, b *beat) (workflows.ModelResult, error) {
	past, err := a.transcripts.Load(ctx, in.Transcript)
	if err != nil {
		return workflows.ModelResult{}, err
	}
	at := activity.GetInfo(ctx).ScheduledTime // the same in every attempt
	fresh, err := a.records(ctx, in, at)
	if err != nil {
		return workflows.ModelResult{}, err
	}
	model := a.model(in)
	result := workflows.ModelResult{Model: model}
	if in.NoCall {
		fresh = append(fresh, transcript.Record{Item: messageItem(EndMark), At: at, Turn: in.Turn})
		result.Transcript, err = a.transcripts.Append(ctx, in.WorkflowID, in.Transcript, fresh)
		return result, err
	}
	if result.Over, err = a.over(ctx, in, model); result.Over != nil || err != nil {
		return result, err
	}
	q := question{in: in, model: model, records: slices.Concat(past, fresh)}
	condensed, spent, err := a.condense(ctx, q, b)
	if err != nil {
		return workflows.ModelResult{}, err
	}
	if condensed != nil {
		fresh, q.records, result.Condensed = append(fresh, *condensed), append(q.records, *condensed), true
	}
	response, err := a.ask(ctx, q, b)
	if err != nil {
		return workflows.ModelResult{}, err
	}
	read := &reader{acts: a, texts: a.texts, mask: a.mask, in: in, model: model, at: time.Now().UTC(), used: callIDs(q.records), stored: a.stored && a.client(model).can(model, canKeep)}
	if err := read.response(ctx, response); err != nil {
		return workflows.ModelResult{}, err
	}
	result.Calls, result.Answer, result.Incomplete = read.calls, read.answer, read.incomplete
	result.Usage = a.usage(response.Usage, model).Add(spent)
	result.Usage.Calls += b.unsure()
	result.Usage.Unsure = b.unsure()
	if result.Transcript, err = a.transcripts.Append(ctx, in.WorkflowID, in.Transcript, append(fresh, read.records...)); err != nil {
		return workflows.ModelResult{}, err
	}
	return result, a.book(ctx, in, result.Usage)
}

// model is the model that answers: the session's, else the default.
func (a *Activities) model(in workflows.ModelInput) string {
	switch {
	case a.online == nil, in.Model == offline.Name:
		return offline.Name
	case in.Model != "":
		return in.Model
	case a.defaultModel != "":
		return a.defaultModel
	}
	return offline.Name
}

// records turns what is new into input items.
func (a *Activities) records(ctx context.Context, in workflows.ModelInput, at time.Time) ([]transcript.Record, error) {
	records := make([]transcript.Record, 0, len(in.Append))
	for _, it := range in.Append {
		r := transcript.Record{At: at, Turn: in.Turn}
		switch {
		case it.Guide != nil:
			text, err := a.texts.load(ctx, it.Guide.Text)
			if err != nil {
				return nil, err
			}
			r.Item = messageItem(guideText(*it.Guide, text))
		case it.Ended != nil:
			r.Item = messageItem(endedText(*it.Ended))
		case it.Message == nil:
			text, err := a.texts.load(ctx, it.Output)
			if err != nil {
				return nil, err
			}
			if it.EditedBy != "" {
				args, err := a.texts.load(ctx, it.Args)
				if err != nil {
					return nil, err
				}
				text = tooloutput.Changed(it.EditedBy, commandIn(args)) + text
			}
			r.Item = outputItem(it.CallID, text)
			if img := it.Image; img != nil {
				r.Image = &transcript.Image{Ref: img.Ref, Type: img.Type, Bytes: img.Bytes}
			}
		default:
			if e := it.Message.Earlier; e != nil {
				text, err := a.texts.load(ctx, e.Text)
				if err != nil {
					return nil, err
				}
				records = append(records, transcript.Record{At: at, Turn: in.Turn, Item: messageItem(earlierText(text))})
			}
			if at := it.Message.EditedAt; at != "" && at != workflows.DeletedAt {
				records = append(records, transcript.Record{At: it.Message.At, Turn: in.Turn, Item: messageItem(editedMark)})
			}
			text, err := a.texts.load(ctx, it.Message.Text)
			if err != nil {
				return nil, err
			}
			r.Author, r.At = it.Message.Author.Label(), it.Message.At
			if in.Shared {
				text = "[" + speakerName(it.Message.Author) + "]: " + text
			}
			if files := workflows.AttachedText(it.Files); files != "" {
				text += "\n\n" + clean(files)
			}
			r.Item = messageItem(text)
		}
		records = append(records, r)
	}
	return records, nil
}

// commandIn is the command in a shell call's arguments.
func commandIn(args string) string {
	var in workflows.ShellArgs
	if json.Unmarshal([]byte(args), &in) != nil {
		return args
	}
	return in.Command
}

// callIDs returns the IDs of all calls in the transcript.
func callIDs(records []transcript.Record) map[string]bool {
	used := map[string]bool{}
	for _, r := range records {
		// Looking for the field first spares decoding every output.
		if !bytes.Contains(r.Item, []byte(`"`+itemCall+`"`)) {
			continue
		}
		if it := peek(r); it.Type == itemCall {
			used[it.CallID] = true
		}
	}
	return used
}
