package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// putText makes a text fit for history: what is long goes into the blob store.
func (a *Activities) putText(ctx context.Context, prefix, text string) (workflows.TextRef, error) {
	return a.putLong(ctx, prefix, text, 0)
}

// putLong is putText where what counts is the text as JSON, and less than usual may
// stay inline.
func (a *Activities) putLong(ctx context.Context, prefix, text string, most int) (workflows.TextRef, error) {
	ref := workflows.TextRef{Text: text, Bytes: len(text)}
	limit := workflows.InlineLimit(most)
	if len(text) <= limit && (most == 0 || encodedLen(text) <= limit) {
		return ref, nil
	}
	key, err := a.cfg.Blobs.Put(ctx, prefix, []byte(text))
	if err != nil {
		return workflows.TextRef{}, err
	}
	ref.Ref, ref.Text = key, cutText(text, limit/8)
	return ref, nil
}

// encodedLen is how long a text is as JSON, in which some bytes become six.
func encodedLen(text string) int {
	data, err := json.Marshal(text)
	if err != nil {
		return len(text) // cannot be: it is a string
	}
	return len(data)
}

// getText returns the whole text.
func (a *Activities) getText(ctx context.Context, ref workflows.TextRef) (string, error) {
	if ref.Ref == "" {
		return ref.Text, nil
	}
	data, err := a.cfg.Blobs.Get(ctx, ref.Ref)
	if errors.Is(err, blob.ErrNotFound) {
		return "", Refuse("The call's arguments are no longer kept.")
	}
	if err != nil {
		return "", fmt.Errorf("reading a call's arguments: %w", err)
	}
	return string(data), nil
}

// cutText cuts to at most limit bytes between runes.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, string(utf8.RuneError)), "\x00", "␀")
}

const (
	tailLines = 10
	tailBytes = 1 << 10 // 1 KiB
)

// tailText returns the last lines of output for people: without colours, as a
// progress bar last looked, masked, at most 10 lines and 1 KiB.
func tailText(output []byte, m *mask.Masker) string {
	// What is masked may begin in lines that are not shown.
	s := m.Text(screen(string(output)))
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	s = strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
	for cut := len(s) - tailBytes; cut > 0 && cut < len(s); cut++ {
		if utf8.RuneStart(s[cut]) {
			return s[cut:]
		}
	}
	return s
}
