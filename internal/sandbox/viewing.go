package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/picture"
	"github.com/countersign/countersign/internal/workflows"
)

// viewImage keeps an image file for the model's next call. Its result says what the
// file is; the bytes are in the blob store. Looking again is harmless.
func (r *run) viewImage(ctx context.Context) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	return r.onContent(ctx, picture.MaxBytes, func(path string, data []byte, size int64) (workflows.ToolResult, error) {
		if size > int64(len(data)) {
			return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s is %s; images of at most %s can be viewed: make a smaller copy.",
				path, megabytes(size), megabytes(picture.MaxBytes)))
		}
		p, err := picture.Look(data)
		if err != nil {
			return r.ended(ctx, workflows.CallFailed, path+" "+err.Error()+".")
		}
		img := workflows.Image{Type: p.Type, Width: p.Width, Height: p.Height, Bytes: size}
		if img.Ref, err = r.a.cfg.Blobs.Put(ctx, owned.Prefix(owned.Images, r.in.WorkflowID), data); err != nil {
			return workflows.ToolResult{}, err
		}
		note := fmt.Sprintf("%s: %s image, %d × %d pixels, %s", clean(path), p.Name(), p.Width, p.Height, megabytes(size))
		res, err := r.done(ctx, started, Output{Note: note}, 0)
		res.Image = &img
		return res, err
	})
}
