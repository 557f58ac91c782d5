package picture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/picture"
)

func drawn(w, h int) *image.Paletted {
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White, color.RGBA{R: 200, A: 255}})
	for i := range img.Pix {
		img.Pix[i] = uint8(i*i) % 3
	}
	return img
}

func asPNG(t *testing.T, w, h int) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, drawn(w, h)))
	return b.Bytes()
}

func asJPEG(t *testing.T, w, h int) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, drawn(w, h), nil))
	return b.Bytes()
}

func asGIF(t *testing.T, frames int) []byte {
	var b bytes.Buffer
	g := &gif.GIF{}
	for range frames {
		g.Image, g.Delay = append(g.Image, drawn(30, 20)), append(g.Delay, 10)
	}
	require.NoError(t, gif.EncodeAll(&b, g))
	return b.Bytes()
}

func unbase64(t *testing.T, s string) []byte {
	data, err := base64.StdEncoding.DecodeString(s)
	require.NoError(t, err)
	return data
}

// webP is a container with one chunk, which holds these bytes.
func webP(kind string, body ...byte) []byte {
	body = append(body, make([]byte, 10)...)
	out := append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind+"\x00\x00\x00\x00"), body...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	binary.LittleEndian.PutUint32(out[16:], uint32(len(body)))
	return out
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data []byte
		want picture.Picture
	}{
		"png":                        {asPNG(t, 7, 5), picture.Picture{Type: picture.PNG, Width: 7, Height: 5}},
		"jpeg":                       {asJPEG(t, 64, 33), picture.Picture{Type: picture.JPEG, Width: 64, Height: 33}},
		"jpeg with something behind": {append(asJPEG(t, 8, 9), "trailing"...), picture.Picture{Type: picture.JPEG, Width: 8, Height: 9}},
		"gif":                        {asGIF(t, 1), picture.Picture{Type: picture.GIF, Width: 30, Height: 20}},
		// The smallest files of their kinds.
		"webp, lossy":    {unbase64(t, "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"), picture.Picture{Type: picture.WebP, Width: 1, Height: 1}},
		"webp, lossless": {unbase64(t, "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="), picture.Picture{Type: picture.WebP, Width: 1, Height: 1}},
		"webp, extended": {webP("VP8X", 0, 0, 0, 0, 0x7f, 2, 0, 0xdf, 1, 0), picture.Picture{Type: picture.WebP, Width: 640, Height: 480}},
	} {
		got, err := picture.Look(tt.data)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, got, name)
	}
}

func TestLookRefuses(t *testing.T) {
	t.Parallel()
	whole := asPNG(t, 40, 40)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-20] ^= 1
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":             {nil, "is no PNG"},
		"text":                {[]byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), "is no PNG, JPEG, GIF or WebP image"},
		"png, cut":            {whole[:len(whole)-5], "ends too early"},
		"png, its head only":  {whole[:8], "ends too early"},
		"png, changed":        {flipped, "checksum"},
		"jpeg, cut":           {asJPEG(t, 64, 64)[:700], "ends too early"},
		"jpeg, its head only": {[]byte("\xff\xd8\xff"), "damaged JPEG"},
		"gif, cut":            {asGIF(t, 1)[:40], "ends too early"},
		"gif, animated":       {asGIF(t, 3), "animated GIF"},
		"gif, empty":          {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), "holds no image"},
		"webp, cut":           {webP("VP8X", 0, 0, 0, 0, 1, 0, 0, 1, 0, 0)[:35], "ends too early"},
		"webp, animated":      {webP("VP8X", 2, 0, 0, 0, 1, 0, 0, 1, 0, 0), "animated WebP"},
		"webp, unknown":       {webP("XXXX", 0), "damaged WebP"},
		"huge":                {hugePNG(), "50000 × 40000 pixels"},
	} {
		_, err := picture.Look(tt.data)
		require.ErrorContains(t, err, tt.want, name)
	}
}

// hugePNG says that it has two thousand million pixels.
func hugePNG() []byte {
	chunk := func(kind string, body []byte) []byte {
		out := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		out = append(append(out, kind...), body...)
		return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
	}
	head := binary.BigEndian.AppendUint32(nil, 50_000)
	head = append(binary.BigEndian.AppendUint32(head, 40_000), 8, 0, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", head)...)
	return append(out, chunk("IEND", nil)...)
}

// FuzzLook holds that no bytes make it fall over, and that what it takes has a
// size within bounds.
func FuzzLook(f *testing.F) {
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Add([]byte("GIF89a\x01\x00\x01\x00\x80\x00\x00"))
	f.Add(webP("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 1, 0, 1, 0))
	f.Add(hugePNG())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := picture.Look(data)
		if err == nil && (p.Width < 1 || p.Height < 1 || p.Width*p.Height > picture.MaxPixels) {
			t.Fatalf("%+v", p)
		}
	})
}
