package agent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// picture is a PNG of a width of its own.
func picture(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 1))))
	return b.Bytes()
}

// views is the output of a call that shows an image of so many bytes, as it says.
func (b *bench) views(callID string, data []byte, says int64) workflows.Item {
	b.t.Helper()
	ref, err := b.blobs.Put(b.t.Context(), "images", data)
	require.NoError(b.t, err)
	it := result(callID, "state: completed\nnote: an image\n")
	it.Image = &workflows.Image{Ref: ref, Type: "image/png", Width: 1, Height: 1, Bytes: says}
	return it
}

func dataURL(data []byte) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(data)
}

func lastInput(s *server) []json.RawMessage {
	reqs := s.seen()
	return reqs[len(reqs)-1].Input
}

// An image is in the requests, each time, and in nothing that is kept.
func TestImage(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(calls("a", "view_image", `{"path":"a.png"}`)), output(says("I see")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("look at a.png")}})
	require.Equal(t, "view_image a.png", first.Calls[0].Shown)
	require.Empty(t, first.Calls[0].Bad)
	data := picture(t, 7)
	second := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{b.views("a", data, int64(len(data)))}})
	require.Equal(t, "I see", second.Answer.Text)
	want := `{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"state: completed\nnote: an image\n"},` +
		`{"type":"input_image","image_url":"` + dataURL(data) + `","detail":"auto"}]}`
	require.JSONEq(t, want, string(lastInput(s)[2]))
	b.must(workflows.ModelInput{Transcript: second.Transcript, Append: []workflows.Item{message("and?")}})
	require.JSONEq(t, want, string(lastInput(s)[2]), "the same again: the server's cache needs that")

	stored, err := b.blobs.Get(t.Context(), second.Transcript)
	require.NoError(t, err)
	require.NotContains(t, string(stored), "base64")
	records, err := b.acts.Transcripts().Load(t.Context(), second.Transcript)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"function_call_output","call_id":"a","output":"state: completed\nnote: an image\n"}`, string(records[2].Item))
	for _, e := range transcript.Entries(records) {
		require.NotContains(t, e.Text, "base64")
	}

	require.NoError(t, b.blobs.Delete(t.Context(), records[2].Image.Ref))
	b.must(workflows.ModelInput{Transcript: second.Transcript, Append: []workflows.Item{message("and?")}})
	require.Contains(t, string(lastInput(s)[2]), "no longer kept")
}

// What does not fit into a request is left out, oldest first.
func TestManyImages(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(calls("a", "view_image", `{"path":"a"}`), calls("b", "view_image", `{"path":"b"}`), calls("c", "view_image", `{"path":"c"}`)),
		output(says("I see")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("look")}})
	b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{
		b.views("a", picture(t, 1), 1), b.views("b", picture(t, 2), 15_000_000), b.views("c", picture(t, 3), 15_000_000),
	}})
	input := lastInput(s)
	require.Contains(t, string(input[4]), "not shown here any more")
	require.Contains(t, string(input[5]), "not shown here any more")
	require.Contains(t, string(input[6]), dataURL(picture(t, 3)))
}

// An image that the server refuses is not sent again, and the session goes on.
func TestRefusedImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refusal http.HandlerFunc
		left    int // images in the request after it
	}{
		"by its place":      {refuse(http.StatusBadRequest, "invalid_image", "input[3].output[1].image_url"), 1},
		"by a code":         {refuse(http.StatusBadRequest, "invalid_image_format", ""), 0},
		"in other words":    {text(http.StatusUnprocessableEntity, "application/json", `{"error":{"message":"this model takes no image input"}}`), 0},
		"for its length":    {refuse(http.StatusRequestEntityTooLarge, "", ""), 0},
		"while it streamed": {text(http.StatusOK, "application/json", `{"id":"r","object":"response","status":"failed","error":{"code":"image_parse_error","message":"x"},"output":[]}`), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asks := output(calls("a", "view_image", `{"path":"a"}`), calls("b", "view_image", `{"path":"b"}`))
			s := newServer(t, asks, tt.refusal, output(says("I see")))
			b := newBench(t, s.options(agent.Options{}))
			first := b.must(workflows.ModelInput{Append: []workflows.Item{message("look")}})
			got := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{
				b.views("a", picture(t, 1), 100), b.views("b", picture(t, 2), 100),
			}})
			require.Equal(t, "I see", got.Answer.Text)
			require.Len(t, s.seen(), 3)
			for range 2 {
				input := lastInput(s)
				all := fmt.Sprintf("%s", input)
				require.Equal(t, tt.left, strings.Count(all, "input_image"))
				require.Equal(t, 2-tt.left, strings.Count(all, "did not take it"))
				b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{message("again")}})
			}
			require.Len(t, s.seen(), 5, "it is not tried again")
		})
	}
}

// Condensing a conversation sends no images, and a window that is full is not
// filled with them.
func TestImagesAndCondensing(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Gives(agenttest.Calls("a", "view_image", object{"path": "a"})), agenttest.Gives(agenttest.Says("I see")))
	b := newBench(t, agent.Options{
		BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test", Windows: map[string]int64{"gpt-test": 4000},
	})
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("look")}})
	it := b.views(first.Calls[0].CallID, picture(t, 9), 100)
	it.Output.Text = strings.Repeat("word ", 3000)
	got := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{it}})
	require.True(t, got.Condensed)
	require.Empty(t, s.Refusals())
	for _, r := range s.Requests() {
		if r.Path == "responses/compact" {
			require.NotContains(t, string(r.Body), "input_image")
		}
	}
}

// Where the server keeps responses an image is sent once.
func TestImageOfAStoredResponse(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Gives(agenttest.Calls("a", "view_image", object{"path": "a"})), agenttest.Gives(agenttest.Says("I see")))
	b := newBench(t, agent.Options{BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test", Stored: true})
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("look")}})
	got := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{b.views(first.Calls[0].CallID, picture(t, 9), 100)}})
	b.must(workflows.ModelInput{Transcript: got.Transcript, Append: []workflows.Item{message("again")}})
	require.Empty(t, s.Refusals())
	var shown []int
	for _, r := range s.Requests() {
		shown = append(shown, strings.Count(string(r.Body), "input_image"))
	}
	require.Equal(t, []int{0, 1, 0}, shown)
}
