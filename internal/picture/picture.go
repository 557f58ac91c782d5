// Package picture tells what image some bytes are, by their content alone, and
// says of what a model cannot be shown why not. It reads structure, never pixels:
// its cost is that of the bytes, whatever size they say the image has.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image/jpeg"
)

const (
	// MaxBytes is the longest image that is shown: "up to 20 MB per image", as
	// OpenAI's guide to image inputs says.
	MaxBytes = 20_000_000
	// MaxPixels bounds width times height. Models scale what they are shown to
	// some 2,048 pixels a side; what is larger by far only costs whoever decodes
	// it: 200 MB for this many.
	MaxPixels = 50_000_000
)

// Media types.
const (
	PNG  = "image/png"
	JPEG = "image/jpeg"
	GIF  = "image/gif"
	WebP = "image/webp"
)

// Picture is what is known of an image.
type Picture struct {
	// Type is its media type.
	Type          string
	Width, Height int
}

// Name is the type as people say it.
func (p Picture) Name() string {
	switch p.Type {
	case PNG:
		return "PNG"
	case JPEG:
		return "JPEG"
	case GIF:
		return "GIF"
	case WebP:
		return "WebP"
	}
	return p.Type
}

var (
	errCutShort = errors.New("is damaged: it ends too early")
	errKind     = errors.New("is no PNG, JPEG, GIF or WebP image")
)

// Look reads an image. Its errors are ends of sentences that begin with the
// image's name, such as "is damaged: it ends too early".
func Look(data []byte) (Picture, error) {
	p, err := look(data)
	switch {
	case err != nil:
		return p, err
	case p.Width <= 0 || p.Height <= 0:
		return p, errors.New("is damaged: it has no size")
	case p.Width > MaxPixels/p.Height:
		return p, fmt.Errorf("has %d × %d pixels; at most %d million can be viewed: make a smaller copy", p.Width, p.Height, MaxPixels/1_000_000)
	}
	return p, nil
}

func look(data []byte) (Picture, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return lookPNG(data)
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return lookJPEG(data)
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return lookGIF(data)
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return lookWebP(data)
	}
	return Picture{}, errKind
}

// lookPNG walks the chunks, of which the first says the size and the last that
// all is there.
func lookPNG(data []byte) (Picture, error) {
	p := Picture{Type: PNG}
	for rest, first := data[8:], true; ; first = false {
		if len(rest) < 12 {
			return p, errCutShort
		}
		n := uint64(binary.BigEndian.Uint32(rest))
		if n > uint64(len(rest)-12) {
			return p, errCutShort
		}
		kind, body := string(rest[4:8]), rest[8:8+n]
		if crc32.ChecksumIEEE(rest[4:8+n]) != binary.BigEndian.Uint32(rest[8+n:]) {
			return p, errors.New("is damaged: a checksum is wrong")
		}
		switch {
		case first && (kind != "IHDR" || n != 13):
			return p, errors.New("is damaged: its header is not there")
		case first:
			p.Width, p.Height = side(binary.BigEndian.Uint32(body)), side(binary.BigEndian.Uint32(body[4:]))
		case kind == "IEND":
			return p, nil
		}
		rest = rest[12+n:]
	}
}

// side is a length in pixels; one that no image has is none.
func side(n uint32) int {
	if n > 1<<31-1 {
		return 0
	}
	return int(n)
}

func lookJPEG(data []byte) (Picture, error) {
	p := Picture{Type: JPEG}
	cfg, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return p, errors.New("is a damaged JPEG, or of a rare kind")
	}
	p.Width, p.Height = cfg.Width, cfg.Height
	if !bytes.Contains(data, []byte("\xff\xd9")) {
		return p, errCutShort
	}
	return p, nil
}

// lookGIF walks the blocks and counts images: of an animation models see nothing.
func lookGIF(data []byte) (Picture, error) {
	p := Picture{Type: GIF}
	r := blocks{rest: data[6:]}
	head := r.take(7)
	if head == nil {
		return p, errCutShort
	}
	p.Width, p.Height = int(binary.LittleEndian.Uint16(head)), int(binary.LittleEndian.Uint16(head[2:]))
	r.colours(head[4])
	for images := 0; ; {
		kind := r.take(1)
		if kind == nil {
			return p, errCutShort
		}
		switch kind[0] {
		case 0x3b: // trailer
			if images == 0 {
				return p, errors.New("is damaged: it holds no image")
			}
			return p, nil
		case 0x21: // extension, with its label
			r.take(1)
			r.skip()
		case 0x2c: // image
			if images++; images > 1 {
				return p, errors.New("is an animated GIF, which cannot be viewed: make an image of one of its frames")
			}
			if at := r.take(9); at != nil {
				r.colours(at[8])
			}
			r.take(1) // the code's size
			r.skip()
		default:
			return p, errors.New("is damaged: it holds a block that no GIF has")
		}
	}
}

// blocks reads the parts of a GIF.
type blocks struct{ rest []byte }

// take gives the next n bytes; nil, also from then on, where there are fewer.
func (b *blocks) take(n int) []byte {
	if len(b.rest) < n {
		b.rest = nil
		return nil
	}
	out := b.rest[:n]
	b.rest = b.rest[n:]
	return out
}

// colours passes over a colour table, if the flags say that there is one.
func (b *blocks) colours(flags byte) {
	if flags&0x80 != 0 {
		b.take(3 << (flags&7 + 1))
	}
}

// skip passes over data in parts, up to the empty one.
func (b *blocks) skip() {
	for {
		n := b.take(1)
		if n == nil || n[0] == 0 {
			return
		}
		b.take(int(n[0]))
	}
}

// lookWebP reads the first chunk, which holds the size in one of three ways.
func lookWebP(data []byte) (Picture, error) {
	p := Picture{Type: WebP}
	if uint64(binary.LittleEndian.Uint32(data[4:]))+8 > uint64(len(data)) || len(data) < 30 {
		return p, errCutShort
	}
	kind, body := string(data[12:16]), data[20:]
	switch {
	case kind == "VP8 " && body[0]&1 == 0 && bytes.Equal(body[3:6], []byte{0x9d, 0x01, 0x2a}):
		p.Width = int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff)
		p.Height = int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)
	case kind == "VP8L" && body[0] == 0x2f:
		bits := binary.LittleEndian.Uint32(body[1:])
		p.Width, p.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case kind == "VP8X" && body[0]&2 != 0:
		return p, errors.New("is an animated WebP, which cannot be viewed: make an image of one of its frames")
	case kind == "VP8X":
		p.Width, p.Height = int(uint24(body[4:]))+1, int(uint24(body[7:]))+1
	default:
		return p, errors.New("is a damaged WebP, or of a rare kind")
	}
	return p, nil
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
