package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/blob"
)

const (
	// One request shows the newest images, of so many bytes together at most: one of
	// the largest that the API takes, and far from the 50 MB and 500 images that it
	// takes in a request, as OpenAI's guide to image inputs says.
	maxShownBytes = 20_000_000
	maxShown      = 32

	// imageWeight is what an image counts for where items count by their bytes: some
	// 1,500 tokens, the most that OpenAI's models make of one at the usual detail.
	imageWeight = 1500 * bytesPerToken
)

// Why an image is not shown, as the model is told.
const (
	notAgain = "[the image is not shown here any more; call view_image again to see it]"
	notTaken = "[the image is not shown: the model's server did not take it]"
	notKept  = "[the image is not shown: it is no longer kept]"
)

// showing is one request's images.
type showing struct {
	// refs are those in it, by the index of the item.
	refs map[int]string
}

// show puts images into the items of a request: what the transcript has of them is
// a reference. The oldest are left out where there are too many, and those that the
// server has refused.
func (a *Activities) show(ctx context.Context, c *client, model string, records []transcript.Record, items []json.RawMessage) (showing, error) {
	shown := showing{refs: map[int]string{}}
	images := imagesOf(records)
	if len(images) == 0 {
		return shown, nil
	}
	room := int64(maxShownBytes)
	for i, raw := range slices.Backward(items) {
		if !bytes.Contains(raw, []byte(`"`+itemOutput+`"`)) {
			continue
		}
		it := peek(transcript.Record{Item: raw})
		img := images[it.CallID]
		if it.Type != itemOutput || img == nil {
			continue
		}
		switch {
		case !c.can(model, canSee(img.Ref)):
			items[i] = withNote(raw, notTaken)
			continue
		case img.Bytes > room || len(shown.refs) == maxShown:
			room = 0 // the ones before it are older still
			items[i] = withNote(raw, notAgain)
			continue
		}
		data, err := a.texts.blobs.Get(ctx, img.Ref)
		if errors.Is(err, blob.ErrNotFound) {
			items[i] = withNote(raw, notKept)
			continue
		}
		if err != nil {
			return shown, fmt.Errorf("reading an image: %w", err)
		}
		room -= img.Bytes
		items[i] = withImage(raw, img.Type, data)
		shown.refs[i] = img.Ref
	}
	return shown, nil
}

// imagesOf are the images of outputs, by the calls' IDs.
func imagesOf(records []transcript.Record) map[string]*transcript.Image {
	var images map[string]*transcript.Image
	for _, r := range records {
		if r.Image == nil {
			continue
		}
		if images == nil {
			images = map[string]*transcript.Image{}
		}
		images[peek(r).CallID] = r.Image
	}
	return images
}

// withImage is an output item with its text and an image, inline.
func withImage(raw json.RawMessage, mediaType string, data []byte) json.RawMessage {
	o, err := readObject(raw)
	if err != nil {
		return raw
	}
	o.set("output", item([]any{
		object{"type": "input_text", "text": o.text("output")},
		object{"type": "input_image", "image_url": "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data), "detail": "auto"},
	}))
	return o.encode()
}

// withNote is an output item with a line more.
func withNote(raw json.RawMessage, note string) json.RawMessage {
	o, err := readObject(raw)
	if err != nil {
		return raw
	}
	o.set("output", item(strings.TrimRight(o.text("output"), "\n")+"\n"+note))
	return o.encode()
}

// canSee is the ability of a model and its server to take one image.
func canSee(ref string) ability { return ability("image " + ref) }

// atInput is a refused parameter that begins with an item of the input.
var atInput = regexp.MustCompile(`^input\[(\d+)\]`)

// blinds notes which images a refusal is about, and reports whether there are any:
// the one that it names, or all of them. Without them the request goes through.
func (s showing) blinds(c *client, model string, r *refusal) bool {
	if len(s.refs) == 0 || !r.aboutImages {
		return false
	}
	if m := atInput.FindStringSubmatch(r.param); m != nil {
		if at, err := strconv.Atoi(m[1]); err == nil && s.refs[at] != "" {
			c.cannotDo(model, canSee(s.refs[at]))
			return true
		}
	}
	for _, ref := range s.refs {
		c.cannotDo(model, canSee(ref))
	}
	return true
}

// aboutImages tells that a request was refused for an image in it, or for its
// length. Servers have many words for that, and all of them hold this one.
func (e apiError) aboutImages(status int) bool {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return true
	case status >= http.StatusInternalServerError, status == http.StatusUnauthorized, status == http.StatusTooManyRequests:
		return false
	}
	return slices.ContainsFunc([]string{e.code, e.param, e.message}, func(s string) bool { return strings.Contains(strings.ToLower(s), "image") })
}
