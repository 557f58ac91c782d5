package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// webClient speaks to the web chat as a person does.
type webClient struct{ url, token, as string }

// chat is a client of this process's own web chat.
func (d *dev) chat() webClient {
	return webClient{url: d.published.WebURL, token: d.published.Token, as: "ada"}
}

// call makes one request of the web chat's API.
func (c webClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/api/v1"+path, body)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("X-Act-As", c.as)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the web chat: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := answered(resp, method, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decoding the web chat's answer: %w", err)
	}
	return nil
}

// text makes one request whose answer is no JSON.
func (c webClient) text(ctx context.Context, path string) (string, error) {
	resp, err := c.get(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := answered(resp, http.MethodGet, path)
	return string(data), err
}

// open makes one request whose answer goes on; the caller closes it.
func (c webClient) open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = answered(resp, http.MethodGet, path)
	return nil, err
}

func (c webClient) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/api/v1"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("X-Act-As", c.as)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the web chat: %w", err)
	}
	return resp, nil
}

func answered(resp *http.Response, method, path string) ([]byte, error) {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the web chat's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, &refused{code: resp.StatusCode, text: fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(data))}
	}
	return data, nil
}

// refused is an answer that says no.
type refused struct {
	code int
	text string
}

func (r *refused) Error() string { return r.text }
