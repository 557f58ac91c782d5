package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/picture"
)

// Image is an image of the input.
type Image struct {
	picture.Picture
	// Bytes is the file's length, and Encoded that of the address that holds it.
	Bytes, Encoded int
}

// details are the levels at which the API looks at an image.
var details = []string{"", "auto", "low", "high", "original"}

// readContent reads a string, or a list of parts: texts, and images where the API
// takes them.
func (it *Item) readContent(at string, raw json.RawMessage, images bool) error {
	odd := Invalid(at, "invalid_type", "Invalid type for '"+at+"'.")
	if raw == nil || string(raw) == "null" {
		return odd
	}
	if json.Unmarshal(raw, &it.Text) == nil {
		return nil
	}
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
		URL     string `json:"image_url"`
		Detail  string `json:"detail"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return odd
	}
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case p.Type == "input_text", p.Type == "output_text":
			it.Text += p.Text
		case p.Type == "refusal":
			it.Text += p.Refusal
		case p.Type == "input_image" && images:
			if !slices.Contains(details, p.Detail) {
				return Invalid(at+".detail", "invalid_value", "Invalid value: '"+p.Detail+"'.")
			}
			img, err := readImage(at+".image_url", p.URL)
			if err != nil {
				return err
			}
			it.Images = append(it.Images, img)
		default:
			return Invalid(at+".type", "invalid_value", "Invalid value: '"+p.Type+"'.")
		}
	}
	return nil
}

// readImage reads an image that stands in the request itself. What is behind other
// addresses is not fetched here.
func readImage(at, url string) (Image, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	kind, data, isBase64 := strings.Cut(rest, ";base64,")
	if !ok || !isBase64 || !strings.HasPrefix(kind, "image/") {
		return Image{}, Invalid(at, "invalid_value", "Invalid '"+at+"'. Expected a base64-encoded data URL with an image MIME type "+
			"(e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=').")
	}
	content, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(content) == 0 {
		return Image{}, Invalid(at, "invalid_base64_image", "Invalid '"+at+"'. The base64 data of the image cannot be decoded.")
	}
	if len(content) > picture.MaxBytes {
		return Image{}, Invalid(at, "image_too_large", "Invalid '"+at+"'. The image is larger than 20 MB.")
	}
	p, err := picture.Look(content)
	if err != nil || p.Type != kind {
		return Image{}, Invalid(at, "invalid_image_format", "The image data you provided does not represent a valid image. "+
			"Please check your input and try again with one of the following image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].")
	}
	return Image{Picture: p, Bytes: len(content), Encoded: len(url)}, nil
}
