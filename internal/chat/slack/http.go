package slack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/telemetry"
)

// ModeHTTP receives Slack's requests at [Config.Listen]; the other mode, "socket",
// is the default.
const ModeHTTP = "http"

// maxRequest bounds a request's body. Slack's largest, a view's submission, is
// well below it.
const maxRequest = 1 << 20 // 1 MiB

// answerHTTP is how long a request waits to be acknowledged: Slack waits 3
// seconds.
const answerHTTP = 2800 * time.Millisecond

// serve receives over HTTP until ctx ends.
func (a *App) serve(ctx context.Context) error {
	if !a.cfg.SigningSecret.IsSet() {
		return fmt.Errorf("%w: slack.signing_secret is not set; http mode cannot tell Slack's requests from others'", ErrRefused)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on slack.listen %q: %w", a.cfg.Listen, err)
	}
	srv := &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	a.dep.Reach.Tell(nil)
	a.fillMissed(ctx)
	select {
	case err := <-failed:
		return fmt.Errorf("serving Slack's requests: %w", err)
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*answerHTTP)
	defer cancel()
	if err := srv.Shutdown(sctx); err != nil {
		_ = srv.Close()
	}
	return nil
}

// Handler takes Slack's requests in HTTP mode: POST /slack/events,
// /slack/commands and /slack/interactions, signed and at most 5 minutes old.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slack/events", a.signed(a.postEvent))
	mux.HandleFunc("POST /slack/commands", a.signed(a.postCommand))
	mux.HandleFunc("POST /slack/interactions", a.signed(a.postInteraction))
	return mux
}

// signed lets only requests through that Slack has signed lately.
func (a *App) signed(next func(http.ResponseWriter, *http.Request, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			var big *http.MaxBytesError
			status := http.StatusBadRequest
			if errors.As(err, &big) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "the body cannot be read", status)
			return
		}
		if err := a.verify(r, body); err != nil {
			a.log.Warn("Request is not signed by Slack", telemetry.KeyError, err, telemetry.KeyAddress, r.RemoteAddr)
			http.Error(w, "not signed by Slack", http.StatusUnauthorized)
			return
		}
		next(w, r, body)
	}
}

// maxSkew is how old a signed request may be, by Slack's clock: an older one is a
// replay.
const maxSkew = 5 * time.Minute

// clockPause is the time between two questions what Slack's clock says.
const clockPause = 10 * time.Second

// verify checks a request's signature (docs.slack.dev/authentication/verifying-requests-from-slack).
// How old it is, is a question of Slack's clock: this machine's may be wrong.
func (a *App) verify(r *http.Request, body []byte) error {
	if !a.cfg.SigningSecret.IsSet() {
		return errors.New("no signing secret is set")
	}
	stamp := r.Header.Get("X-Slack-Request-Timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("it has no timestamp")
	}
	signature, ok := strings.CutPrefix(r.Header.Get("X-Slack-Signature"), "v0=")
	given, err := hex.DecodeString(signature)
	if !ok || err != nil {
		return errors.New("it has no signature")
	}
	mac := hmac.New(sha256.New, []byte(a.cfg.SigningSecret.Reveal()))
	_, _ = mac.Write([]byte("v0:" + stamp + ":")) // a hash takes everything
	_, _ = mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), given) {
		return errors.New("its signature is another")
	}
	clock := &a.api.gate.clock
	if clock.Near(time.Unix(sec, 0), maxSkew) {
		return nil
	}
	// What is known of Slack's clock may be older than the last change of this machine's.
	if a.taken.first("clock/"+time.Now().Truncate(clockPause).String(), true) {
		ctx, cancel := context.WithTimeout(r.Context(), answerHTTP/2)
		defer cancel()
		_, _, err = a.api.identify(ctx)
	}
	if err == nil && clock.Near(time.Unix(sec, 0), maxSkew) {
		return nil
	}
	return fmt.Errorf("it is from %s, and it is %s by Slack's clock", time.Unix(sec, 0).UTC().Format(time.RFC3339), clock.Now().UTC().Format(time.RFC3339))
}

// postEvent takes an event; Slack's check of the address is answered.
func (a *App) postEvent(w http.ResponseWriter, r *http.Request, body []byte) {
	var check struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(body, &check) == nil && check.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, check.Challenge)
		return
	}
	attempt, _ := strconv.Atoi(r.Header.Get("X-Slack-Retry-Num")) // absent at the first delivery
	a.acknowledge(w, r, envelope{Type: "events_api", Payload: body, Attempt: attempt, Reason: r.Header.Get("X-Slack-Retry-Reason")})
}

// postCommand takes a slash command, which comes as a form.
func (a *App) postCommand(w http.ResponseWriter, r *http.Request, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	fields := map[string]string{}
	for k := range form {
		fields[k] = form.Get(k)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	a.acknowledge(w, r, envelope{Type: "slash_commands", Payload: data})
}

// postInteraction takes a click, shortcut or submission: JSON in a form's field,
// read from the signed body alone.
func (a *App) postInteraction(w http.ResponseWriter, r *http.Request, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil || !json.Valid([]byte(form.Get("payload"))) {
		http.Error(w, "no payload", http.StatusBadRequest)
		return
	}
	a.acknowledge(w, r, envelope{Type: "interactive", Payload: json.RawMessage(form.Get("payload"))})
}

// acknowledge works on an envelope and answers the request when it is
// acknowledged; one that is not gets an error, and Slack repeats an event.
func (a *App) acknowledge(w http.ResponseWriter, r *http.Request, env envelope) {
	answer := make(chan any, 1)
	ended := make(chan struct{})
	ctx := context.WithoutCancel(r.Context())
	a.wg.Go(func() {
		defer close(ended)
		a.handle(ctx, env, func(payload any) {
			select {
			case answer <- payload:
			default:
			}
		})
	})
	timer := time.NewTimer(answerHTTP)
	defer timer.Stop()
	select {
	case payload := <-answer:
		acknowledged(w, payload)
		return
	case <-ended:
	case <-timer.C:
	}
	select {
	case payload := <-answer: // both were ready
		acknowledged(w, payload)
	default:
		http.Error(w, "not taken yet", http.StatusServiceUnavailable)
	}
}

func acknowledged(w http.ResponseWriter, payload any) {
	if payload == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(payload); err != nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}
