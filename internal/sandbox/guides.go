package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// guideName is the file in which repositories tell agents how to work there.
	guideName = "AGENTS.md"
	// What of them is read: so many directories deep, of so many directories with so
	// many entries, so many files, so many bytes of one and of all. A model reads them
	// with every call.
	guideDepth   = 2
	guideDirs    = 60
	guideEntries = 2000
	maxGuides    = 20
	guideBytes   = 16 << 10
	guidesAll    = 32 << 10
)

// guides reads the workspace's AGENTS.md files, the root's first. They only help,
// so what cannot be read is left out. Links to directories are not followed: what is
// in the workspace is found without them, and the rest is no guide to it.
func (a *Activities) guides(ctx context.Context, s Session, workflowID string) []workflows.Guide {
	var found []workflows.Guide
	room, looked := guidesAll, 0
	level := []string{s.Info().Workspace}
	for range guideDepth + 1 {
		var below []string
		for _, dir := range level {
			if looked++; looked > guideDirs {
				return found
			}
			entries, _, err := s.ReadDir(ctx, dir, guideEntries)
			if fatal(ctx, err) {
				a.cfg.Log.WarnContext(ctx, "Guides were not looked for", telemetry.KeyError, err)
				return found
			}
			for _, e := range entries {
				switch {
				case e.Name == guideName:
					if len(found) == maxGuides || room <= 0 {
						return found
					}
					if g, ok := a.guide(ctx, s, workflowID, path.Join(dir, e.Name), min(room, guideBytes)); ok {
						found = append(found, g)
						room -= g.Text.Bytes
					}
				case e.Mode.IsDir() && !strings.HasPrefix(e.Name, ".") && e.Name != "node_modules" && e.Name != "vendor": // other people's
					below = append(below, path.Join(dir, e.Name))
				}
			}
		}
		level = below
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
