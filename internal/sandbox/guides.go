package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"strings"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// guideName is the file in which repositories tell agents how to work there.
	guideName = "AGENTS.md"
	// What of them is read: so many directories deep, so many files, so many bytes
	// of one and of all. A model reads them with every call.
	guideDepth = 2
	maxGuides  = 20
	guideBytes = 16 << 10
	guidesAll  = 32 << 10
)

// guides reads the workspace's AGENTS.md files, the root's first. They only help,
// so what cannot be read is left out.
func (a *Activities) guides(ctx context.Context, s Session, workflowID string) []workflows.Guide {
	var found []workflows.Guide
	room := guidesAll
	root := s.Info().Workspace
	pattern := root
	for range guideDepth + 1 {
		paths, err := s.Glob(ctx, path.Join(pattern, guideName), maxGuides)
		if err != nil && !errors.Is(err, ErrTooMany) {
			a.cfg.Log.WarnContext(ctx, "Guides were not looked for", telemetry.KeyError, err)
			return found
		}
		for _, p := range paths {
			if len(found) == maxGuides || room <= 0 {
				return found
			}
			if strings.Contains(p, "/node_modules/") || strings.Contains(p, "/vendor/") {
				continue // other people's
			}
			if g, ok := a.guide(ctx, s, workflowID, p, min(room, guideBytes)); ok {
				found = append(found, g)
				room -= g.Text.Bytes
			}
		}
		pattern = path.Join(pattern, "*")
	}
	return found
}

func (a *Activities) guide(ctx context.Context, s Session, workflowID, p string, limit int) (workflows.Guide, bool) {
	data, size, err := s.ReadFile(ctx, p, int64(limit))
	if err != nil || size == 0 {
		return workflows.Guide{}, false // a directory, or gone meanwhile
	}
	cut, root := size > int64(len(data)), s.Info().Workspace
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "")
	sum := sha256.Sum256(data)
	g := workflows.Guide{Path: strings.TrimPrefix(strings.TrimPrefix(p, root), "/"), Digest: hex.EncodeToString(sum[:8]), Cut: cut}
	if g.Text, err = a.putText(ctx, owned.Prefix(owned.Guides, workflowID), text); err != nil {
		return g, false
	}
	return g, true
}
