package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox/evidence"
	"github.com/countersign/countersign/internal/workflows"
)

// workScript says, a line each, what no remote has of the repositories in the
// workspace and right below it. Nobody has allowed it, so git runs nothing that their
// configuration names, and writes nothing: where a status would run a filter, it is
// left out, and so is what is uncommitted within a submodule.
const workScript = `command -v git >/dev/null 2>&1 || exit 0
` + evidence.Git + `for repo in . */; do
	repo=${repo%/} in=
	[ -e "$repo/.git" ] || continue
	[ "$repo" = . ] || in=" in $repo"
	(
		cd "$repo" && [ "$(g rev-parse --is-inside-work-tree)" = true ] || exit 0
		! quiet || echo "uncommitted $(g status --porcelain --ignore-submodules=dirty | wc -l)"
		g for-each-ref --format='%(refname:short)' refs/heads | head -n 50 | while IFS= read -r branch; do
			n=$(g rev-list --count "refs/heads/$branch" --not --remotes) || continue
			[ "$n" = 0 ] || echo "unpushed $n on $branch$in"
		done
	) 2>/dev/null
done`

// inventoryScript says, a line each, what a destroy would lose.
const inventoryScript = `echo "files $(find . -name .git -prune -o -type f -print | wc -l)"
echo "kilobytes $(du -sk . | cut -f1)"
` + workScript + "\n"

// workTime bounds the look after each turn.
const workTime = 5 * time.Second

// takeWork is the part of the inventory that is shown before a destroy: quick,
// and nothing at all where there is no repository.
func takeWork(ctx context.Context, s Session) *workflows.Inventory {
	found, err := s.Glob(ctx, ".git", 1)
	if err == nil && len(found) == 0 {
		found, err = s.Glob(ctx, "*/.git", maxMatches)
	}
	if err != nil || len(found) == 0 {
		return nil
	}
	inv := lookAt(ctx, s, workScript, workTime)
	if inv.Uncommitted == 0 && len(inv.Unpushed) == 0 {
		return nil
	}
	return &inv
}

// inventoryTime bounds the look: a destroy does not wait for a huge workspace.
const inventoryTime = 15 * time.Second

// takeInventory looks at a workspace that is about to go. It is for a receipt:
// what cannot be found out is left out.
func takeInventory(ctx context.Context, s Session) workflows.Inventory {
	return lookAt(ctx, s, inventoryScript, inventoryTime)
}

func lookAt(ctx context.Context, s Session, script string, within time.Duration) workflows.Inventory {
	var inv workflows.Inventory
	ctx, cancel := context.WithTimeout(ctx, within+5*time.Second)
	defer cancel()
	var b [6]byte
	_, _ = rand.Read(b[:])
	id := "inventory-" + hex.EncodeToString(b[:])
	if err := s.Start(ctx, ExecSpec{ID: id, Command: script, Limits: Limits{Timeout: within, OutputBytes: 64 << 10}}); err != nil {
		return inv
	}
	var out bytes.Buffer
	if err := s.Attach(ctx, id, Stdout, 0, &out); err != nil {
		return inv
	}
	for line := range strings.Lines(out.String()) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		switch word {
		case "files":
			inv.Files = int(n)
		case "kilobytes":
			inv.Bytes = n << 10
		case "uncommitted":
			inv.Uncommitted += int(n)
		case "unpushed":
			if len(inv.Unpushed) < 10 {
				inv.Unpushed = append(inv.Unpushed, fmt.Sprint(clean(rest)))
			}
		}
	}
	return inv
}
