package chat

import (
	"context"

	"github.com/countersign/countersign/internal/mask"
)

const (
	// OutputChunk is how much of an output [Output.Read] returns at most, in bytes.
	OutputChunk = 1 << 20 // 1 MiB
	// outputAround is how far on both sides of it a secret is looked for.
	outputAround = 64 << 10
)

// Streams of an exec.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// OutputReader reads the outputs of a session's execs.
type OutputReader interface {
	// ReadAt returns up to limit bytes of an exec's stream from offset on, as far as
	// they are known now.
	ReadAt(ctx context.Context, exec, stream string, offset int64, limit int) ([]byte, error)
}

// Output is one stream of an exec as people see it: each byte of a secret is an
// asterisk, so that offsets stay true; while the exec runs a last word that is not
// over is kept back, as it may become one.
type Output struct {
	From         OutputReader
	Mask         *mask.Masker
	Exec, Stream string
	// Ended reports whether nothing more will come.
	Ended func() bool
}

// Read returns what there is from offset on, at most [OutputChunk] bytes: none at
// the end.
func (o Output) Read(ctx context.Context, offset int64) ([]byte, error) {
	const size = OutputChunk + 2*outputAround
	start := max(0, offset-outputAround)
	skip := int(offset - start)
	data, err := o.From.ReadAt(ctx, o.Exec, o.Stream, start, size)
	if err != nil || len(data) <= skip {
		return nil, err
	}
	end := min(len(data), skip+OutputChunk)
	if open := o.Mask.Open(data); open > 0 && len(data) < size && len(data)-open < end {
		if !o.Ended() {
			return o.Mask.Cover(data)[skip:max(len(data)-open, skip)], nil
		}
		// It may have ended only since the bytes were read.
		if data, err = o.From.ReadAt(ctx, o.Exec, o.Stream, start, size); err != nil {
			return nil, err
		}
		end = min(len(data), skip+OutputChunk)
	}
	return o.Mask.Cover(data)[skip:max(end, skip)], nil
}

// Whole reads a stream from its start to what is its end now. Of one that is longer
// than most bytes the head and the tail are kept; left is how many bytes lie
// between them.
func (o Output) Whole(ctx context.Context, most int) (head, tail []byte, left int64, err error) {
	half := most / 2
	for offset := int64(0); ; {
		data, err := o.Read(ctx, offset)
		if err != nil || len(data) == 0 {
			return head, tail, left, err
		}
		offset += int64(len(data))
		if room := half - len(head); room > 0 {
			n := min(room, len(data))
			head, data = append(head, data[:n]...), data[n:]
		}
		tail = append(tail, data...)
		if over := len(tail) - half; over > 0 {
			left += int64(over)
			tail = append([]byte(nil), tail[over:]...)
		}
	}
}
