package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
)

// userAgent is what Discord asks a bot to call itself.
const userAgent = "DiscordBot (https://github.com/countersign/countersign, 1)"

// bucketsLive is how long what is known of rate limits is kept: each thread has
// buckets of its own, and Discord says the present state with each answer.
const bucketsLive = time.Hour

// api is the REST API by discordgo's calls, with waits that end with their
// context, and with our own structs in and out.
type api struct {
	session *discordgo.Session
	base    string
	// clock is Discord's.
	clock chat.Clock
	// refused, if set, is told when Discord has refused the bot's token.
	refused func()

	mu      sync.Mutex
	limiter *discordgo.RateLimiter
	born    time.Time
	// closed is until when a bucket is closed by a 429; the empty name is all.
	closed map[string]time.Time
}

// newAPI makes the client of the API at base, which includes the version.
func newAPI(base string, token telemetry.Secret, client *http.Client) (*api, error) {
	if client == nil {
		client = &http.Client{Timeout: callTimeout}
	}
	s, err := discordgo.New("Bot " + strings.TrimPrefix(token.Reveal(), "Bot "))
	if err != nil {
		return nil, fmt.Errorf("making a Discord client: %w", err)
	}
	through := *client
	a := &api{session: s, base: strings.TrimSuffix(base, "/"), closed: map[string]time.Time{}}
	through.Transport = answers{client.Transport, &a.clock}
	s.Client, s.UserAgent, s.LogLevel = &through, userAgent, quiet
	s.StateEnabled, s.ShouldRetryOnRateLimit, s.MaxRestRetries = false, false, 0
	return a, nil
}

// quiet is below discordgo's lowest level: its own log is not ours.
const quiet = -1

// answers notes what Discord answered beside the body, in the request's context.
type answers struct {
	next  http.RoundTripper
	clock *chat.Clock
}

type answered struct {
	status int
	header http.Header
	// code is the error's of a 429, which discordgo does not keep.
	code int
}

type answerKey struct{}

// RoundTrip implements [http.RoundTripper].
func (t answers) RoundTrip(req *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(req)
	if err == nil {
		t.clock.Heed(resp.Header)
	}
	a, ok := req.Context().Value(answerKey{}).(*answered)
	if !ok || err != nil {
		return resp, err
	}
	a.status, a.header = resp.StatusCode, resp.Header
	if resp.StatusCode != http.StatusTooManyRequests {
		return resp, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close() // what was read is all that is used
	if err != nil {
		return nil, err
	}
	var refusal struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(data, &refusal) // no JSON has no code
	a.code, resp.Body = refusal.Code, io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// maxRefusal bounds what is read of a 429.
const maxRefusal = 64 << 10

// refusedError is a refusal with one of Discord's codes that came as a 429.
type refusedError struct{ code int }

func (e *refusedError) Error() string { return fmt.Sprintf("discord refuses with code %d", e.code) }

// call sends in as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil.
func (a *api) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
	}
	return a.send(ctx, method, path, "application/json", body, out)
}

// file is one to send with a message.
type file struct{ name, text string }

// upload is like call, with files.
func (a *api) upload(ctx context.Context, method, path string, in any, files []file, out any) error {
	if len(files) == 0 {
		return a.call(ctx, method, path, in, out)
	}
	var list []*discordgo.File
	for _, f := range files {
		list = append(list, &discordgo.File{Name: f.name, ContentType: "text/plain; charset=utf-8", Reader: strings.NewReader(f.text)})
	}
	contentType, body, err := discordgo.MultipartBodyWithJSON(in, list)
	if err != nil {
		return fmt.Errorf("encoding a request with files: %w", err)
	}
	return a.send(ctx, method, path, contentType, body, out)
}

func (a *api) send(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	bucket, free := bucketOf(method, path)
	if wait := a.wait(bucket, free); wait > 0 {
		return &chat.RateLimitedError{RetryAfter: wait, Err: errors.New("closed after a 429")}
	}
	b, err := a.acquire(ctx, bucket, free)
	if err != nil {
		return err
	}
	var seen answered
	ctx = context.WithValue(ctx, answerKey{}, &seen)
	data, err := a.session.RequestWithLockedBucket(method, a.base+path, contentType, body, b, 0,
		discordgo.WithContext(ctx), discordgo.WithRetryOnRatelimit(false), discordgo.WithRestRetries(0))
	switch {
	case seen.status == http.StatusTooManyRequests && seen.code == discordgo.ErrCodeMaximumNumberOfEditsToMessagesOlderThanOneHourReached:
		return &refusedError{seen.code} // about this message, not the bucket
	case seen.status == http.StatusTooManyRequests, seen.status == http.StatusServiceUnavailable && seen.header.Get("Retry-After") != "":
		return a.limited(bucket, seen.header, err)
	}
	if seen.status == http.StatusUnauthorized && !free && a.refused != nil {
		a.refused()
	}
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err // the address that it names holds an interaction's token
		}
		return fmt.Errorf("%s %s: %w", method, redacted(path), err)
	}
	if out == nil || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("reading the answer to %s %s: %w", method, redacted(path), err)
	}
	return nil
}

// persist repeats a call that is harmless when it is done twice while it may work a
// moment later, and returns its last error when ctx ends.
func persist(ctx context.Context, call func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, bucketWait) {
		err := call()
		wait := pause
		var limited *chat.RateLimitedError
		switch {
		case err == nil || code(err) != 0 || status(err) >= 400 && status(err) < 500:
			return err
		case errors.As(err, &limited):
			wait = limited.RetryAfter
		}
		if wait > bucketWait || sleep(ctx, wait) != nil {
			return err
		}
	}
}

// redacted is a path without an interaction's token.
func redacted(path string) string {
	p := strings.Split(path, "/")
	if len(p) > 3 && (p[1] == "interactions" || p[1] == "webhooks") {
		p[3] = "…"
	}
	return strings.Join(p, "/")
}

// bucketOf is the rate limit that a call shares with others: its method and
// path with all IDs but the major one left out. free calls answer interactions,
// which the global limit does not count and which share nothing.
func bucketOf(method, path string) (name string, free bool) {
	path, _, _ = strings.Cut(path, "?")
	p := strings.Split(path, "/")
	if len(p) > 1 && (p[1] == "interactions" || p[1] == "webhooks") {
		return method + " " + path, true
	}
	for i := 3; i < len(p); i++ {
		if isID(p[i]) {
			p[i] = "*"
		}
	}
	return method + " " + strings.Join(p, "/"), false
}

// wait is how long a bucket is closed yet.
func (a *api) wait(bucket string, free bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := []string{bucket}
	if !free {
		names = append(names, "")
	}
	var wait time.Duration
	for _, name := range names {
		until, ok := a.closed[name]
		if !ok {
			continue
		}
		if left := time.Until(until); left > 0 {
			wait = max(wait, left)
		} else {
			delete(a.closed, name)
		}
	}
	return wait
}

// limited closes what a 429 was about until the time that it names.
func (a *api) limited(bucket string, h http.Header, err error) error {
	after := retryAfter(h)
	var limit *discordgo.RateLimitError
	if errors.As(err, &limit) && limit.RateLimit != nil && limit.TooManyRequests != nil && limit.RetryAfter > 0 {
		after = limit.RetryAfter
	}
	name := bucket
	if h.Get("X-RateLimit-Global") != "" || h.Get("X-RateLimit-Scope") == "global" {
		name = ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if until := time.Now().Add(after); until.After(a.closed[name]) {
		a.closed[name] = until
	}
	return &chat.RateLimitedError{RetryAfter: after, Err: errors.New("429 of scope " + h.Get("X-RateLimit-Scope"))}
}

// retryAfter reads the header, in seconds; without one that says something, a
// minute: such an answer is not the API's, but of what stands before it.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || s < 0 {
		return time.Minute
	}
	return max(time.Duration(s*float64(time.Second)), 50*time.Millisecond)
}

// acquire locks a bucket when a call may be made, or says when to come again.
func (a *api) acquire(ctx context.Context, name string, free bool) (*discordgo.Bucket, error) {
	limiter := a.limits(free)
	b := limiter.GetBucket(name)
	for {
		for !b.TryLock() {
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return nil, err
			}
		}
		wait := limiter.GetWaitTime(b, 1)
		if wait <= 0 {
			b.Remaining--
			return b, nil
		}
		b.Unlock()
		if wait > bucketWait {
			return nil, &chat.RateLimitedError{RetryAfter: wait, Err: errors.New("the bucket is empty")}
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (a *api) limits(free bool) *discordgo.RateLimiter {
	if free {
		return discordgo.NewRatelimiter()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.born) > bucketsLive {
		a.limiter, a.born = discordgo.NewRatelimiter(), time.Now()
	}
	return a.limiter
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// code is Discord's error code in err; 0 when it has none.
func code(err error) int {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.code
	}
	var e *discordgo.RESTError
	if errors.As(err, &e) && e.Message != nil {
		return e.Message.Code
	}
	return 0
}

// status is the HTTP status in err; 0 when it has none.
func status(err error) int {
	var e *discordgo.RESTError
	if errors.As(err, &e) && e.Response != nil {
		return e.Response.StatusCode
	}
	return 0
}

func is(err error, codes ...int) bool { return slices.Contains(codes, code(err)) && code(err) != 0 }

// refusals are what Discord says of a message that it does not take whatever happens:
// of its form, its length, or what it says (Opcodes and Status Codes, JSON Error
// Codes). The library has no names for the two last ones: automatic moderation and
// the filter of harmful links.
func refusals() []int {
	return []int{
		discordgo.ErrCodeInvalidFormBody, discordgo.ErrCodeCannotSendEmptyMessage, discordgo.ErrCodeTheRequestBodyContainsInvalidJSON,
		discordgo.ErrCodeRequestEntityTooLarge, discordgo.ErrCodeFileUploadedExceedsTheMaximumSize,
		discordgo.ErrCodeExplicitContentCannotBeSentToTheDesiredRecipients, 200000, 240000,
	}
}

// mapped turns Discord's error into what a [chat.Poster] returns. A permission
// that is missing may be given, so it is waited for, slowly: refused calls count
// towards a ban.
func mapped(err error) error {
	switch {
	case err == nil:
		return nil
	case is(err, discordgo.ErrCodeUnknownChannel, discordgo.ErrCodeUnknownGuild, discordgo.ErrCodeThreadIsLocked):
		return fmt.Errorf("%w: %w", chat.ErrThreadGone, err)
	case is(err, discordgo.ErrCodeUnknownMessage):
		return fmt.Errorf("%w: %w", chat.ErrMessageGone, err)
	case is(err, refusals()...), status(err) == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", chat.ErrRefused, err)
	case status(err) == http.StatusForbidden, status(err) == http.StatusUnauthorized:
		return &chat.RateLimitedError{RetryAfter: deniedRetryAfter, Err: err}
	}
	return err
}
