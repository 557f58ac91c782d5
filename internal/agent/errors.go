package agent

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/responses"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/workflows"
)

// ErrTypeUnavailable is the type of errors that a later attempt may not meet:
// the server is away, overloaded, too slow, or sent something unreadable.
const ErrTypeUnavailable = "ModelUnavailable"

// maxRetryAfter bounds the delay that a server may ask for.
const maxRetryAfter = time.Hour

const (
	safe    = "The session and its files are safe."
	tryLate = "Send a message to try again."

	codeInvalidEncrypted = "invalid_encrypted_content"
	codeContextLength    = "context_length_exceeded"
	codeNoPrevious       = "previous_response_not_found"

	windowFull = "The conversation no longer fits into the model's window."
	windowHint = "Go on in a new session with this one's files (`new --from`), or choose a model with a larger window: `model <name>`."
)

// failure is a model call that failed, in words for people.
type failure struct {
	kind string // one of the ErrTypes
	// what happened, and what to do about it.
	what, hint string
	// delay is when to try again; 0 leaves it to the retry policy.
	delay time.Duration
	cause error // for the log
}

func (f *failure) Error() string {
	if f.cause == nil {
		return f.what
	}
	return f.what + ": " + f.cause.Error()
}

func (f *failure) Unwrap() error { return f.cause }

// refusal is a failure that the server's own code explains.
type refusal struct {
	*failure
	status int
	code   string
	param  string
	// aboutImages: an image in the request was refused, or its length.
	aboutImages bool
}

func (r *refusal) Unwrap() error { return r.failure }

// forTemporal gives an error the form that the workflow acts on. unsure are the
// requests that may have been billed.
func forTemporal(err error, unsure int) error {
	var f *failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, transcript.ErrMissing), errors.Is(err, transcript.ErrCorrupt), errors.Is(err, errTextMissing):
		f = &failure{
			kind: workflows.ErrTypeNotFound,
			what: "A part of this session's conversation is missing in the blob store.",
			hint: "Check that the blob store is the one the session was started with, then send a message to go on.",
		}
	default:
		f = &failure{
			kind: ErrTypeUnavailable,
			what: "The conversation could not be read or written.", hint: "Check the worker's blob store. " + tryLate,
		}
	}
	final := f.kind != ErrTypeUnavailable && f.kind != workflows.ErrTypeRateLimited
	return temporal.NewApplicationErrorWithOptions(f.what+" "+safe, f.kind, temporal.ApplicationErrorOptions{
		NonRetryable: final, NextRetryDelay: f.delay, Details: []any{f.hint, unsure},
	})
}

func unavailable(what string, cause error) *failure {
	return &failure{kind: ErrTypeUnavailable, what: what, hint: tryLate, cause: cause}
}

// apiError is the body of a refusal, read leniently: servers differ.
type apiError struct{ code, kind, param, message string }

// refused classifies an answer with an error status. What the server wrote does
// not reach people: it may hold parts of the key or of the conversation.
func (c *client) refused(res *http.Response, err error, model string) error {
	e := readAPIError(err)
	f := &failure{kind: workflows.ErrTypeBadRequest, cause: fmt.Errorf("status %d, code %q, param %q: %w", res.StatusCode, word(e.code), word(e.param), err)}
	switch status := res.StatusCode; {
	case e.isQuota() || status == http.StatusPaymentRequired:
		f.kind = workflows.ErrTypeQuota
		f.what = "The model's account has no quota left."
		f.hint = "Raise its quota or set another openai.api_key, then send a message to go on."
	case status == http.StatusUnauthorized:
		f.kind = workflows.ErrTypeAuth
		f.what = "The model's server did not accept the API key."
		f.hint = "Set a valid openai.api_key (or OPENAI_API_KEY), restart the worker, then send a message to go on."
	case status == http.StatusForbidden:
		f.kind = workflows.ErrTypeAuth
		f.what = fmt.Sprintf("The API key may not use the model %q here.", model)
		f.hint = "Use a key that may, or another model: `model <name>`. Then send a message to go on."
	case status == http.StatusTooManyRequests:
		f.kind = workflows.ErrTypeRateLimited
		f.delay = retryAfter(res.Header, time.Now())
		f.what = "The model's rate limit is reached."
		f.hint = tryLate
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= http.StatusInternalServerError:
		f.kind = ErrTypeUnavailable
		f.delay = retryAfter(res.Header, time.Now())
		f.what = fmt.Sprintf("The model's server had a fault (%d).", status)
		f.hint = tryLate
	default:
		c.badRequest(f, status, e, model)
	}
	return &refusal{failure: f, status: res.StatusCode, code: e.code, param: e.refusedParam(), aboutImages: e.aboutImages(res.StatusCode)}
}

// badRequest words the refusals that no retry can mend.
func (c *client) badRequest(f *failure, status int, e apiError, model string) {
	switch {
	case e.code == "model_not_found" || (status == http.StatusNotFound && e.param == "model"):
		f.what = fmt.Sprintf("The model's server does not know the model %q.", model)
		f.hint = "Choose another: `model <name>`, then send a message to go on."
	case status == http.StatusNotFound:
		f.what = fmt.Sprintf("There is no Responses API at %s (404).", c.host)
		f.hint = "Check openai.base_url, restart the worker, then send a message to go on."
	case e.code == codeContextLength, status == http.StatusRequestEntityTooLarge:
		f.what, f.hint = windowFull, windowHint
	case e.code == "invalid_prompt", strings.Contains(e.code, "policy"):
		f.what = "The model's server refused the request for reasons of its usage policy."
		f.hint = "Put the task in other words."
	default:
		f.what = fmt.Sprintf("The model's server refused the request (%d%s).", status, e.brief())
		f.hint = "Choose another model: `model <name>`, or check openai.base_url. Then send a message to go on."
	}
}

// readAPIError takes the fields of the SDK's error; a body of another form
// leaves them empty.
func readAPIError(err error) apiError {
	var e *responses.Error
	if !errors.As(err, &e) {
		return apiError{}
	}
	return apiError{code: codeOf(e.Code, e.Message), kind: e.Type, param: e.Param, message: e.Message}
}

// codeOf is an error's code. Some servers name a window that is full in words only.
func codeOf(code, message string) string {
	said := strings.ToLower(message)
	for _, words := range []string{"maximum context length", "context length exceeded", "exceeds the context window", "exceed context window", "exceeds the available context size"} {
		if strings.Contains(said, words) {
			return codeContextLength
		}
	}
	return code
}

func (e apiError) isQuota() bool {
	for _, s := range []string{e.code, e.kind} {
		switch s {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded":
			return true
		}
	}
	return false
}

// refusedParam is the parameter that was refused; the API names it in words
// only where encrypted reasoning is asked of a model that has none.
func (e apiError) refusedParam() string {
	if e.param == "" && strings.Contains(e.message, "Encrypted content is not supported") {
		return "include"
	}
	return e.param
}

// brief names code and parameter where they are plain words.
func (e apiError) brief() string {
	var s string
	if code := word(e.code); code != "" {
		s += ", " + code
	}
	if p := word(e.param); p != "" {
		s += ", " + p
	}
	return s
}

// word returns s if it can only be an identifier, else nothing.
func word(s string) string {
	if len(s) > 60 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]") != "" {
		return ""
	}
	return s
}

// retryAfter reads Retry-After-Ms and Retry-After; 0 is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	parse := func(s string, unit time.Duration) (time.Duration, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(n) || n < 0 {
			return 0, false
		}
		return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
	}
	if d, ok := parse(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	after := h.Get("Retry-After")
	if d, ok := parse(after, time.Second); ok {
		return d
	}
	if t, err := http.ParseTime(after); err == nil {
		return min(max(0, t.Sub(now)), maxRetryAfter)
	}
	return 0
}

// unreadable is an answer with a good status that is no response object.
func (c *client) unreadable(res *http.Response, err error) error {
	if kind := res.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		return &failure{
			kind: workflows.ErrTypeBadRequest, cause: err,
			what: fmt.Sprintf("What answers at %s is no Responses API.", c.host),
			hint: "Check openai.base_url, restart the worker, then send a message to go on.",
		}
	}
	return unavailable("The model's server sent something that cannot be read.", err)
}

// notSent tells that a request never left: no connection was made.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// responseFailure is the error of a response that says that it failed; nil for
// whole and for incomplete ones.
func responseFailure(r *responses.Response) error {
	switch r.Status {
	case responses.ResponseStatusFailed:
	case responses.ResponseStatusCancelled, responses.ResponseStatusQueued, responses.ResponseStatusInProgress:
		return unavailable(fmt.Sprintf("The model's server ended the call early (%s).", r.Status), nil)
	default:
		return nil
	}
	return failedWith(codeOf(string(r.Error.Code), r.Error.Message), "")
}

// failedWith is the error of a response, or of a stream, that failed with a code.
func failedWith(code, param string) error {
	f := failedAs(code)
	f.cause = fmt.Errorf("failed response, code %q, param %q", word(code), word(param))
	return &refusal{failure: f, code: code, param: param, aboutImages: strings.Contains(code, "image")}
}

func failedAs(code string) *failure {
	switch {
	case code == "rate_limit_exceeded":
		return &failure{kind: workflows.ErrTypeRateLimited, what: "The model's rate limit is reached.", hint: tryLate}
	case (apiError{code: code}).isQuota():
		return &failure{
			kind: workflows.ErrTypeQuota, what: "The model's account has no quota left.",
			hint: "Raise its quota or set another openai.api_key, then send a message to go on.",
		}
	case code == "" || code == "server_error" || strings.HasSuffix(code, "timeout"), strings.Contains(code, "overloaded"):
		return unavailable("The model's server had a fault while it answered.", nil)
	case code == codeContextLength:
		return &failure{kind: workflows.ErrTypeBadRequest, what: windowFull, hint: windowHint}
	case code == "invalid_prompt", strings.Contains(code, "policy"):
		return &failure{
			kind: workflows.ErrTypeBadRequest, hint: "Put the task in other words.",
			what: "The model's server refused the request for reasons of its usage policy.",
		}
	}
	return &failure{
		kind: workflows.ErrTypeBadRequest, what: "The model's server could not answer" + (apiError{code: code}).brief() + ".",
		hint: "Choose another model: `model <name>`, then send a message to go on.",
	}
}
