package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/countersign/countersign/internal/telemetry"
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
	canKeep      ability = "store"
	canChain     ability = "previous_response_id"
	canDetach    ability = "background"
	canCompact   ability = "compact" // has /responses/compact
)

// abilities are all of them, as parameters of a refusal begin.
var abilities = []ability{canEncrypt, canSummarise, canStream, canKeep, canChain, canDetach}

func (c *client) can(model string, what ability) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cannot[model][what]
}

// learns notes that a model refused something of the request, and reports
// whether that is news.
func (c *client) learns(model string, r *refusal) bool {
	if r.status != http.StatusBadRequest || r.code == codeNoPrevious {
		return false
	}
	for _, what := range abilities {
		if strings.HasPrefix(r.param, string(what)) && c.can(model, what) {
			c.cannotDo(model, what)
			return true
		}
	}
	return false
}

func (c *client) cannotDo(model string, what ability) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cannot[model] == nil {
		c.cannot[model] = map[ability]bool{}
	}
	c.cannot[model][what] = true
}
