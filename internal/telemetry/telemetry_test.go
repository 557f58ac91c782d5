package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/telemetry"
)

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	s := telemetry.NewSecret("xoxb-value")
	holder := struct {
		Name  string
		Token telemetry.Secret
	}{"bot", s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{s, struct{ token telemetry.Secret }{s}, &s, holder, &holder, []telemetry.Secret{s}, map[string]telemetry.Secret{"a": s}} {
			require.NotContains(t, fmt.Sprintf(verb, v), "xoxb-value", "%s of %T", verb, v)
			require.NotContains(t, fmt.Sprintf(verb, v), "786f7862", "%s of %T", verb, v)
		}
	}
	b, err := json.Marshal(holder)
	require.NoError(t, err)
	require.JSONEq(t, `{"Name":"bot","Token":"[redacted]"}`, string(b))
	require.Equal(t, "xoxb-value", s.Reveal())
	require.Empty(t, telemetry.Secret{}.String())
}

func TestLoggerCutsSecretsAnywhereInTheLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, telemetry.Options{
		Secrets: []telemetry.Secret{telemetry.NewSecret(`to"ken-1`), telemetry.NewSecret("abc"), telemetry.NewSecret("plain-secret")},
	})
	require.NoError(t, err)
	log.Info("Calling", telemetry.KeyError, errors.New(`dial: to"ken-1 refused`), "url", "https://h/?k=plain-secret", "word", "abcdef")
	log.Debug("Hidden")
	require.NotContains(t, out.String(), "ken-1")
	require.NotContains(t, out.String(), "plain-secret")
	require.NotContains(t, out.String(), "Hidden")
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), out.String())
	require.Equal(t, "dial: [redacted] refused", line["error"])
	require.Equal(t, "abcdef", line["word"], "a very short secret must not eat ordinary words")
}

func TestUnknownLevel(t *testing.T) {
	t.Parallel()
	_, err := telemetry.NewLogger(&bytes.Buffer{}, telemetry.Options{Level: "loud"})
	require.ErrorContains(t, err, `"loud"`)
}

func TestLoggerMasksTokens(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, telemetry.Options{})
	require.NoError(t, err)
	log.Info("Calling", telemetry.KeyError, `curl -H "Authorization: Bearer xoxb-1234567890-abc"`, "commit", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12")
	require.NotContains(t, out.String(), "1234567890-abc")
	require.Contains(t, out.String(), "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12")
	require.True(t, json.Valid(out.Bytes()), out.String())
}
