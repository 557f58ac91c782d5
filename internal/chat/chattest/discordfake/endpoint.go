package discordfake

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// PublicKey is the application's, in hexadecimal, for discord.public_key.
func (s *Server) PublicKey() string { return hex.EncodeToString(s.key.Public().(ed25519.PublicKey)) }

// Endpoint sets the address that interactions are sent to over HTTP; the gateway
// gets none then. As the Developer Portal does, it first sends a PING that is
// signed and one that is signed wrongly: the one must be answered with a PONG, the
// other with 401 (Interactions Overview, Setting Up an Endpoint).
func (s *Server) Endpoint(url string) error {
	ping := object{"id": "1", "application_id": AppID, "type": 1, "token": "ping", "version": 1}
	s.mu.Lock()
	ping["id"] = s.snowflake()
	s.mu.Unlock()
	body, err := json.Marshal(ping)
	if err != nil {
		return fmt.Errorf("encode the ping: %w", err)
	}
	for _, good := range []bool{false, true} {
		status, _, answer, err := s.signed(url, body, good)
		if err != nil {
			return err
		}
		var pong struct{ Type int }
		switch {
		case !good && status != http.StatusUnauthorized:
			return fmt.Errorf("a wrong signature got %d, not 401", status)
		case good && (status != http.StatusOK || json.Unmarshal(answer, &pong) != nil || pong.Type != 1):
			return fmt.Errorf("the ping got %d %s", status, answer)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = url
	return nil
}

// signed posts a body with its signature (Interactions Overview, Validating
// Security Request Headers).
func (s *Server) signed(url string, body []byte, good bool) (status int, h http.Header, answer []byte, err error) {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	signature := ed25519.Sign(s.key, append([]byte(at), body...))
	if !good {
		signature[0] ^= 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.AnswerWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Signature-Ed25519", hex.EncodeToString(signature))
	r.Header.Set("X-Signature-Timestamp", at)
	r.Header.Set("User-Agent", "Discord-Interactions/1.0 (+https://discord.com)")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("post the interaction: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRequest))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	return resp.StatusCode, resp.Header, data, nil
}

// deliver sends an interaction: over the gateway, or over HTTP, where the answer
// in the body counts as the first one.
func (s *Server) deliver(i *Interaction) {
	url := s.endpoint
	if url == "" {
		s.dispatch(dispatch{name: "INTERACTION_CREATE", data: i.payload})
		return
	}
	body, err := json.Marshal(i.payload)
	if err != nil {
		panic(fmt.Sprintf("discordfake: an interaction does not encode: %v", err))
	}
	go func() {
		status, header, answer, err := s.signed(url, body, true)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err != nil:
			s.complain("interaction %s over HTTP: %v", i.ID, err)
		case status == http.StatusOK:
			if no := s.inline(i, header, answer); no != nil {
				s.complain("interaction %s over HTTP was answered with what is refused: %d %s %v", i.ID, no.Code, no.Message, no.Errors)
			}
		case status != http.StatusAccepted:
			s.complain("interaction %s over HTTP got %d", i.ID, status)
		}
	}()
}

func (s *Server) inline(i *Interaction, h http.Header, answer []byte) *refusal {
	q := &request{}
	if no := q.decode(&http.Request{Header: h}, answer); no != nil {
		return no
	}
	var p problems
	callbackBody().check(q.body, nil, &p)
	if no := s.verdict(&p); no != nil {
		return no
	}
	return s.respond(i, q)
}
