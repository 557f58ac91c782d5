package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// openAIBaseURL is the address of OpenAI's own API.
	openAIBaseURL = "https://api.openai.com/v1/"

	// maxResponseBytes is the longest response that is read: far more than any
	// model may write, so that a server gone mad cannot fill the memory.
	maxResponseBytes = 64 << 20 // 64 MiB
)

// client makes calls of one server. It never retries.
type client struct {
	service responses.ResponseService
	host    string
	timeout time.Duration

	mu sync.Mutex
	// cannot is what a model refused, by model.
	cannot map[string]map[ability]bool
}

type clientOptions struct {
	baseURL   string
	key       telemetry.Secret
	transport http.RoundTripper
	timeout   time.Duration
}

func newClient(o clientOptions) *client {
	if o.transport == nil {
		t, _ := http.DefaultTransport.(*http.Transport)
		own := t.Clone()
		own.MaxIdleConnsPerHost = 64
		o.transport = own
	}
	opts := []option.RequestOption{
		option.WithBaseURL(o.baseURL),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: bounded{o.transport}}),
	}
	if o.key.IsSet() {
		opts = append(opts, option.WithAPIKey(o.key.Reveal()))
	}
	host := o.baseURL
	if u, err := url.Parse(o.baseURL); err == nil {
		host = u.Host
	}
	return &client{
		service: responses.NewResponseService(opts...), host: host, timeout: o.timeout, cannot: map[string]map[ability]bool{},
	}
}

// parseBaseURL checks a base URL; "" is OpenAI's.
func parseBaseURL(raw string) (string, error) {
	if raw == "" {
		return openAIBaseURL, nil
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("openai.base_url is no http or https address")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.String(), nil
}

// bounded cuts off responses that never end.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err == nil && res.Body != nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxResponseBytes)
	}
	return res, err
}

// maxTries bounds the requests of one attempt, first one included.
const maxTries = 5

// ask makes the model call. What a server cannot take is left out in a further
// try of the same attempt: encrypted reasoning, asking for it, and what no
// longer fits into the window. A refused request costs nothing.
func (a *Activities) ask(ctx context.Context, in workflows.ModelInput, all []transcript.Record, b *beat) (*responses.Response, error) {
	model, c := a.model(in), a.online
	if model == offline.Name {
		c = a.offline
	}
	withReasoning, budget, sent := true, 0, all
	for try := 1; ; try++ {
		response, err := c.call(ctx, c.request(in, model, replay(sent, model, withReasoning)), b)
		var refused *refusal
		if err == nil || try == maxTries || !errors.As(err, &refused) {
			return response, err
		}
		switch {
		case c.learns(model, refused):
		case refused.code == codeInvalidEncrypted && withReasoning:
			withReasoning = false
		case refused.code == codeContextLength:
			if budget == 0 {
				budget = size(all)
			}
			budget /= 2
			sent, withReasoning = shrink(all, budget), false
		default:
			return nil, err
		}
		a.log.InfoContext(ctx, "Model request is made smaller", telemetry.KeyWorkflowID, in.WorkflowID,
			"model", model, "code", word(refused.code), "try", try)
	}
}

// request builds the request. Its beginning (instructions, tools, history) is
// the same from call to call, which the server's cache needs.
func (c *client) request(in workflows.ModelInput, model string, items []json.RawMessage) responses.ResponseNewParams {
	input := make(responses.ResponseInputParam, 0, len(items))
	for _, raw := range items {
		input = append(input, param.Override[responses.ResponseInputItemUnionParam](raw))
	}
	p := responses.ResponseNewParams{
		Model:             model,
		Instructions:      param.NewOpt(instructions(in.Sandbox)),
		Input:             responses.ResponseNewParamsInputUnion{OfInputItemList: input},
		Tools:             tools(),
		ParallelToolCalls: param.NewOpt(true),
		Store:             param.NewOpt(false),
		PromptCacheKey:    param.NewOpt(cacheKey(in.WorkflowID)),
	}
	if c.can(model, canSummarise) {
		p.Reasoning = shared.ReasoningParam{Summary: shared.ReasoningSummaryAuto}
	}
	if c.can(model, canEncrypt) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	return p
}

// cacheKey names a session to the server's cache, within the API's 64 characters
// and without telling where the thread is.
func cacheKey(workflowID string) string {
	h := sha256.Sum256([]byte(workflowID))
	return "countersign-" + hex.EncodeToString(h[:16])
}

// ability is something of a request that not every model or server takes.
type ability string

const (
	canEncrypt   ability = "include"   // give encrypted reasoning
	canSummarise ability = "reasoning" // give a summary of its reasoning
	canStream    ability = "stream"
)

// abilities are all of them, as parameters of a refusal begin.
var abilities = []ability{canEncrypt, canSummarise, canStream}

func (c *client) can(model string, what ability) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cannot[model][what]
}

// learns notes that a model refused something of the request, and reports
// whether that is news.
func (c *client) learns(model string, r *refusal) bool {
	if r.status != http.StatusBadRequest {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range abilities {
		if !strings.HasPrefix(r.param, string(what)) || c.cannot[model][what] {
			continue
		}
		if c.cannot[model] == nil {
			c.cannot[model] = map[ability]bool{}
		}
		c.cannot[model][what] = true
		return true
	}
	return false
}
