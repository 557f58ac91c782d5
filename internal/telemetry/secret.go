package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what every printed form of a set [Secret] shows.
const Redacted = "[redacted]"

// Secret is a token, key or password. Whatever prints it (fmt with any verb,
// slog, encoding/json, encoding/xml, a YAML encoder) gets [Redacted]; only
// Reveal gives the value. The zero value means "not set" and prints as nothing.
//
// The value sits behind a pointer because fmt cannot call methods on
// unexported struct fields: there it prints an address instead.
type Secret struct{ value *string }

// NewSecret wraps value; an empty one is the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the value itself, for the one call that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet says whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// String returns [Redacted], or nothing when the secret is not set.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return Redacted
}

// Format prints String whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is String as a slog value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON, XML and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON is String, quoted.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
