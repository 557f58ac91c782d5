package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// shards is into how many parts the index is divided by hash: of 20,000 sessions
	// one has some 600, and 30 KB.
	shards = 32
	// indexed is how many rows come into the index at once; until then they are looked
	// for in their pages.
	indexed = 10 * workflows.RegistryPage
	// registryIO is how many blobs of a registry are read or written at once.
	registryIO = 16
)

// Registry keeps the sessions of each manager in the blob store, but for the
// newest: pages of [workflows.RegistryPage] rows in the order of the sessions'
// starts, and an index from workflow ID to row. A root names them all and is what
// a manager carries: a save writes the pages and parts that it touches and a new
// root, whatever else there is. Blobs are never changed; what a save replaces is
// removed by the next one, so that a save can be done again until its result is known.
type Registry struct {
	Store *blob.Store
}

// root is a registry at one moment.
type root struct {
	// Gen counts the saves.
	Gen  int `json:"gen"`
	Rows int `json:"rows"`
	// Pages and Index name blobs below the manager's prefix; the index has the first
	// Indexed rows.
	Pages   []string       `json:"pages"`
	Index   [shards]string `json:"index"`
	Indexed int            `json:"indexed"`
	// Replaced are blobs of the root before that this one has no more.
	Replaced []string `json:"replaced,omitempty"`
}

type page struct {
	Rows []workflows.SessionRow `json:"rows"`
}

// shard is a part of the index: row numbers by workflow ID.
type shard map[string]int

func prefixOf(managerID string) string {
	return "registry/" + strings.ReplaceAll(managerID, "/", "_") + "/"
}

func headKey(managerID string) string { return prefixOf(managerID) + "head" }

func shardOf(workflowID string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workflowID)) // never fails
	return int(h.Sum32() % shards)
}

// Load returns what was saved last for a manager, if anything.
func (r *Registry) Load(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	data, err := r.Store.Get(ctx, headKey(in.ManagerID))
	if errors.Is(err, blob.ErrNotFound) {
		return workflows.SaveRegistryResult{}, nil
	}
	if err != nil {
		return workflows.SaveRegistryResult{}, fmt.Errorf("reading the registry's head: %w", err)
	}
	old, err := r.root(ctx, string(data))
	return workflows.SaveRegistryResult{Archive: string(data), Rows: old.Rows}, err
}

// Find looks a session up.
func (r *Registry) Find(ctx context.Context, in workflows.FindSessionInput) (res workflows.FindSessionResult, err error) {
	of, err := r.root(ctx, in.Archive)
	if err != nil {
		return res, err
	}
	prefix, _ := split(in.Archive)
	var part shard
	if err := r.get(ctx, prefix, of.Index[shardOf(in.WorkflowID)], &part); err != nil {
		return res, err
	}
	first := of.Indexed / workflows.RegistryPage
	if n, ok := part[in.WorkflowID]; ok {
		first = n / workflows.RegistryPage
	}
	for k := first; k < len(of.Pages); k++ {
		p, err := r.page(ctx, in.Archive, of, k)
		if err != nil {
			return res, err
		}
		if i := p.index(in.WorkflowID); i >= 0 {
			return workflows.FindSessionResult{Found: true, Row: p.Rows[i]}, nil
		}
	}
	return res, nil
}

func (p page) index(workflowID string) int {
	return slices.IndexFunc(p.Rows, func(row workflows.SessionRow) bool { return row.WorkflowID == workflowID })
}

// older are the n rows before one, newest first.
func (r *Registry) older(ctx context.Context, archive string, before, n int) ([]workflows.SessionRow, error) {
	of, err := r.root(ctx, archive)
	if err != nil {
		return nil, err
	}
	var rows []workflows.SessionRow
	for next := min(before, of.Rows) - 1; next >= 0 && len(rows) < n; {
		k := next / workflows.RegistryPage
		p, err := r.page(ctx, archive, of, k)
		if err != nil {
			return nil, err
		}
		for _, row := range slices.Backward(p.Rows) {
			if row.Row <= next && len(rows) < n {
				rows = append(rows, row)
			}
		}
		next = k*workflows.RegistryPage - 1
	}
	return rows, nil
}

// each calls do with every row of every manager's registry.
func (r *Registry) each(ctx context.Context, do func(context.Context, workflows.SessionRow) error) error {
	for o, err := range r.Store.List(ctx, "registry/") {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(o.Key, "/head") {
			continue
		}
		head, err := r.Store.Get(ctx, o.Key)
		if err != nil {
			return fmt.Errorf("reading the registry's head: %w", err)
		}
		of, err := r.root(ctx, string(head))
		if err != nil {
			return err
		}
		for k := range of.Pages {
			p, err := r.page(ctx, string(head), of, k)
			if err != nil {
				return err
			}
			for _, row := range p.Rows {
				if err := do(ctx, row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *Registry) root(ctx context.Context, key string) (root, error) {
	var of root
	if key == "" {
		return of, nil
	}
	if !strings.HasPrefix(key, "registry/") || strings.Contains(key, "..") {
		return of, errors.New("that names no registry")
	}
	prefix, name := split(key)
	return of, r.get(ctx, prefix, name, &of)
}

func (r *Registry) page(ctx context.Context, archive string, of root, k int) (page, error) {
	var p page
	prefix, _ := split(archive)
	return p, r.get(ctx, prefix, of.Pages[k], &p)
}

// split gives what the names of a registry's blobs stand below, and the root's.
func split(archive string) (prefix, name string) {
	i := strings.LastIndexByte(archive, '/') + 1
	return archive[:i], archive[i:]
}

// get reads a blob of a registry; one without a name was never made and leaves into
// as it is.
func (r *Registry) get(ctx context.Context, prefix, name string, into any) error {
	if name == "" {
		return nil
	}
	data, err := r.Store.Get(ctx, prefix+name)
	if err != nil {
		return fmt.Errorf("reading %s of the registry: %w", name, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding %s of the registry: %w", name, err)
	}
	return nil
}

// genOf is which save made a root; 0 is none.
func genOf(archive string) int {
	_, name := split(archive)
	gen, _, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(gen)
	if err != nil {
		return 0
	}
	return n
}
