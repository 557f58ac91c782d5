package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/workflows"
)

// previewBytes is how much of a text stays inline where the whole one is in the
// blob store.
const previewBytes = 1 << 10 // 1 KiB

// errTextMissing says that a text which history names is not in the blob store.
var errTextMissing = errors.New("text is missing")

// texts keeps long texts in the blob store.
type texts struct{ blobs Blobs }

// load returns the whole text as valid UTF-8 without NUL bytes.
func (t texts) load(ctx context.Context, ref workflows.TextRef) (string, error) {
	text := ref.Text
	if ref.Ref != "" {
		data, err := t.blobs.Get(ctx, ref.Ref)
		if errors.Is(err, blob.ErrNotFound) {
			return "", fmt.Errorf("%w: %q", errTextMissing, ref.Ref)
		}
		if err != nil {
			return "", fmt.Errorf("reading text %q: %w", ref.Ref, err)
		}
		text = string(data)
	}
	return clean(text), nil
}

// commandsPrefix is where whole commands lie in the blob store: they are on record,
// and outlast their session.
const commandsPrefix = "commands"

// save returns text inline where it has at most limit bytes, else as a
// reference; limit is at most workflows.MaxInlineText. It is kept as long as the
// session.
func (t texts) save(ctx context.Context, session, text string, limit int) (workflows.TextRef, error) {
	return t.put(ctx, owned.Prefix(owned.Texts, session), text, limit)
}

func (t texts) put(ctx context.Context, prefix, text string, limit int) (workflows.TextRef, error) {
	if len(text) <= limit {
		return workflows.TextRef{Text: text, Bytes: len(text)}, nil
	}
	sum := sha256.Sum256([]byte(text))
	key := prefix + "/" + hex.EncodeToString(sum[:])
	if err := t.blobs.Write(ctx, key, []byte(text)); err != nil {
		return workflows.TextRef{}, fmt.Errorf("writing text: %w", err)
	}
	return workflows.TextRef{Text: cut(text, previewBytes), Ref: key, Bytes: len(text)}, nil
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, string(utf8.RuneError)), "\x00", "")
}

// cut returns at most n bytes of s, on a rune border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// speakerName is how a message's author is named to the model: one line
// without brackets.
func speakerName(a workflows.Actor) string {
	name := strings.Join(strings.Fields(clean(a.Label())), " ")
	return cut(strings.NewReplacer("[", "(", "]", ")").Replace(name), 100)
}
