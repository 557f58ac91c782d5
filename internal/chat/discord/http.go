package discord

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// maxRequest bounds an interaction's body: a modal holds five inputs of 4,000
	// characters, a message that is clicked on what a message may hold.
	maxRequest = 1 << 20 // 1 MiB
	// maxAge is how old a signed request may be: an older one is a replay.
	maxAge = 5 * time.Minute
	// clockPause is the time between two looks at Discord's clock.
	clockPause = 10 * time.Second
	// drainWithin is how long a stopping server waits for requests in flight.
	drainWithin = 5 * time.Second
)

// serve receives interactions over HTTP until ctx ends.
func (a *App) serve(ctx context.Context) error {
	h, err := a.Handler()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on discord.listen %q: %w", a.cfg.Listen, err)
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving Discord's interactions: %w", err)
	case <-ctx.Done():
	}
	sctx, cancel := limit(ctx, drainWithin)
	defer cancel()
	if err := srv.Shutdown(sctx); err != nil {
		_ = srv.Close() // what is still open is given up
	}
	return nil
}

// Handler takes interactions over HTTP: POST /discord/interactions, signed by
// Discord and at most 5 minutes old. They are answered over the REST API, as those
// of the gateway are.
func (a *App) Handler() (http.Handler, error) {
	key, err := hex.DecodeString(a.cfg.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: discord.public_key is no key; copy it from the application's page “General Information”", ErrRefused)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /discord/interactions", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		if !discordgo.VerifyInteraction(r, key) || !a.recent(r) {
			http.Error(w, "invalid request signature", http.StatusUnauthorized)
			return
		}
		a.posted(w, r)
	})
	return mux, nil
}

// recent reports a request that was signed a while ago at most, by Discord's clock:
// this machine's may be wrong.
func (a *App) recent(r *http.Request) bool {
	sec, err := strconv.ParseInt(r.Header.Get("X-Signature-Timestamp"), 10, 64)
	if err != nil {
		return false
	}
	at, clock := time.Unix(sec, 0), &a.api.clock
	if clock.Near(at, maxAge) {
		return true
	}
	// What is known of Discord's clock may be older than the last change of this machine's.
	if a.hinted.first("clock/"+time.Now().Truncate(clockPause).String(), true) {
		ctx, cancel := context.WithTimeout(r.Context(), lookWithin)
		defer cancel()
		if _, err := a.api.identify(ctx); err == nil && clock.Near(at, maxAge) {
			return true
		}
	}
	a.log.Warn("Request is older or newer than Discord's clock allows", "at", at.UTC().Format(time.RFC3339), "now", clock.Now().UTC().Format(time.RFC3339))
	return false
}

// posted takes a verified interaction. It is acknowledged at once: its first
// answer goes over the REST API, which wants a 202 here.
func (a *App) posted(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var i interaction
	if err == nil {
		err = json.Unmarshal(data, &i)
	}
	switch {
	case err != nil:
		http.Error(w, "the interaction cannot be read", http.StatusBadRequest)
	case i.Type == interactionPing:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":1}`) // who asks has gone if this fails
	default:
		select {
		case a.work <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		w.WriteHeader(http.StatusAccepted)
		ctx := context.WithoutCancel(r.Context())
		a.wg.Go(func() {
			defer func() { <-a.work }()
			a.interact(ctx, i)
		})
	}
}

// both receives over the gateway and, where that is set up, interactions over
// HTTP, until ctx ends or one of them fails.
func (a *App) both(ctx context.Context) error {
	if a.cfg.Listen == "" {
		return a.receive(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	go func() { failed <- a.serve(ctx) }()
	go func() { failed <- a.receive(ctx) }()
	err := <-failed
	cancel()
	err = errors.Join(err, <-failed)
	if err != nil {
		a.log.Error("Receiving has ended", telemetry.KeyError, err)
	}
	return err
}
