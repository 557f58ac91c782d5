package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// maxTries bounds the requests of one attempt, first one included.
const maxTries = 8

// question is what the model is asked.
type question struct {
	in    workflows.ModelInput
	model string
	// records are the whole conversation, to its end.
	records []transcript.Record
	// mute keeps the model from calling tools, and its answer from the card.
	mute bool
}

// sending is how a question is sent in one try.
type sending struct {
	items    []json.RawMessage
	previous string
}

func (a *Activities) client(model string) *client {
	if model == offline.Name {
		return a.offline
	}
	return a.online
}

// ask makes the model call. What a server cannot take is left out in a further
// try of the same attempt: what it has refused as a parameter, a response that it
// does not know any more, encrypted reasoning, and what no longer fits into the
// window. A refused request costs nothing.
func (a *Activities) ask(ctx context.Context, q question, b *beat) (*responses.Response, error) {
	c := a.client(q.model)
	past := effective(q.records, q.model)
	chain, withReasoning, budget := a.stored && !q.mute, true, 0
	for try := 1; ; try++ {
		s := sending{}
		if from := 0; chain && c.can(q.model, canChain) {
			s.previous, from = lastStored(past, q.model)
			s.items = replay(past, q.model, withReasoning, from)
		}
		if len(s.items) == 0 { // a response needs something to respond to
			s = sending{items: replay(past, q.model, withReasoning, 0)}
		}
		shown := showing{}
		if !q.mute {
			var err error
			if shown, err = a.show(ctx, c, q.model, past, s.items); err != nil {
				return nil, err
			}
		}
		response, err := c.call(ctx, a.request(ctx, c, q, s), b)
		var refused *refusal
		if err == nil || try == maxTries || !errors.As(err, &refused) {
			return response, err
		}
		switch {
		case c.learns(q.model, refused):
		case shown.blinds(c, q.model, refused):
		case s.previous != "" && refused.isUnknownResponse():
			chain = false
		case refused.code == codeInvalidEncrypted && withReasoning:
			past, withReasoning, chain = effective(q.records, ""), false, false
		case refused.code == codeContextLength:
			if budget == 0 {
				budget = size(past)
			}
			budget /= 2
			past, withReasoning, chain = shrink(past, budget), false, false
		default:
			return nil, err
		}
		a.log.InfoContext(ctx, "Model request is sent in another form", telemetry.KeyWorkflowID, q.in.WorkflowID,
			"model", q.model, "code", word(refused.code), "param", word(refused.param), "try", try)
	}
}

// isUnknownResponse tells that the server has no response, or no longer, that a
// request goes on from, or that what follows it does not fit it.
func (r *refusal) isUnknownResponse() bool {
	return r.code == codeNoPrevious || r.status == http.StatusNotFound || (r.status == http.StatusBadRequest && r.code != codeContextLength)
}

// lastStored is the last response of model that its server keeps, and the index
// of the first record after it; from is 0 where there is none.
func lastStored(records []transcript.Record, model string) (id string, from int) {
	for i := len(records) - 1; i >= 0; i-- {
		r := records[i]
		if r.Response == "" {
			continue
		}
		if !r.Stored || r.Model != model {
			return "", 0
		}
		return r.Response, i + 1
	}
	return "", 0
}

// request builds a request. Its beginning (instructions, tools, history) is the
// same from call to call, which the server's cache needs.
func (a *Activities) request(ctx context.Context, c *client, q question, s sending) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model:             q.model,
		Instructions:      param.NewOpt(instructions(q.in.Sandbox, a.timeouts)),
		Input:             responses.ResponseNewParamsInputUnion{OfInputItemList: inputList(s.items)},
		Tools:             a.allTools(ctx, q.model),
		ParallelToolCalls: param.NewOpt(true),
		Store:             param.NewOpt(a.stored && !q.mute && c.can(q.model, canKeep)),
		PromptCacheKey:    param.NewOpt(cacheKey(q.in.WorkflowID)),
	}
	if s.previous != "" {
		p.PreviousResponseID = param.NewOpt(s.previous)
	}
	if q.mute {
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: param.NewOpt(responses.ToolChoiceOptionsNone)}
	}
	if a.background && p.Store.Value && c.can(q.model, canDetach) {
		p.Background = param.NewOpt(true)
	}
	if c.can(q.model, canSummarise) {
		p.Reasoning = shared.ReasoningParam{Summary: shared.ReasoningSummaryAuto}
	}
	if c.can(q.model, canEncrypt) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	return p
}

func inputList(items []json.RawMessage) responses.ResponseInputParam {
	input := make(responses.ResponseInputParam, 0, len(items))
	for _, raw := range items {
		input = append(input, param.Override[responses.ResponseInputItemUnionParam](raw))
	}
	return input
}
