package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// Save adds rows and changes others. Doing it again from the same registry gives
// the same one. A change of a session that the registry does not have is dropped.
func (r *Registry) Save(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	e, err := r.edit(ctx, in.ManagerID, in.Archive)
	if err != nil {
		return workflows.SaveRegistryResult{}, err
	}
	if err := e.prepare(ctx, in); err != nil {
		return workflows.SaveRegistryResult{}, err
	}
	for _, row := range in.Rows {
		if err := e.append(row); err != nil {
			return workflows.SaveRegistryResult{}, err
		}
	}
	for _, c := range in.Changes {
		e.change(c)
	}
	if err := e.reindex(ctx); err != nil {
		return workflows.SaveRegistryResult{}, err
	}
	key, err := e.write(ctx)
	return workflows.SaveRegistryResult{Archive: key, Rows: e.root.Rows}, err
}

// edit is a registry in the making: the parts of another that it changes.
type edit struct {
	r       *Registry
	manager string
	root    root
	old     []string
	// pages are those that were read or made, changed those of them to be written.
	pages   map[int]*page
	changed map[int]bool
	parts   map[int]shard
}

func (r *Registry) edit(ctx context.Context, manager, archive string) (*edit, error) {
	of, err := r.root(ctx, archive)
	if err != nil {
		return nil, err
	}
	e := &edit{r: r, manager: manager, root: of, old: of.Replaced, pages: map[int]*page{}, changed: map[int]bool{}, parts: map[int]shard{}}
	e.root.Gen++
	e.root.Pages, e.root.Replaced = slices.Clone(of.Pages), nil
	if _, name := split(archive); name != "" {
		e.root.Replaced = append(e.root.Replaced, name)
	}
	return e, nil
}

// prepare reads what a save will touch: the page that is not full, and those that
// the changed rows are in or may be in.
func (e *edit) prepare(ctx context.Context, in workflows.SaveRegistryInput) error {
	if e.root.Rows%workflows.RegistryPage > 0 {
		e.pages[len(e.root.Pages)-1] = &page{}
	}
	if len(in.Changes) > 0 {
		for _, c := range in.Changes {
			e.parts[shardOf(c.WorkflowID)] = shard{}
		}
		if err := e.readParts(ctx); err != nil {
			return err
		}
		for k := e.root.Indexed / workflows.RegistryPage; k < len(e.root.Pages); k++ {
			e.pages[k] = &page{}
		}
		for _, c := range in.Changes {
			if n, ok := e.parts[shardOf(c.WorkflowID)][c.WorkflowID]; ok {
				e.pages[n/workflows.RegistryPage] = &page{}
			}
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registryIO)
	for k, p := range e.pages {
		g.Go(func() error { return e.r.get(gctx, prefixOf(e.manager), e.root.Pages[k], p) })
	}
	return g.Wait()
}

func (e *edit) readParts(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registryIO)
	for k, part := range e.parts {
		g.Go(func() error { return e.r.get(gctx, prefixOf(e.manager), e.root.Index[k], &part) })
	}
	return g.Wait()
}

func (e *edit) append(row workflows.SessionRow) error {
	if row.Row != e.root.Rows {
		return fmt.Errorf("row %d does not follow the %d of the registry", row.Row, e.root.Rows)
	}
	k := row.Row / workflows.RegistryPage
	if e.pages[k] == nil {
		e.pages[k] = &page{}
	}
	e.pages[k].Rows = append(e.pages[k].Rows, row)
	e.changed[k] = true
	e.root.Rows++
	return nil
}

// change changes a row in its page, which is among those that were read.
func (e *edit) change(c workflows.RowChange) {
	for k, p := range e.pages {
		if i := p.index(c.WorkflowID); i >= 0 {
			c.Apply(&p.Rows[i])
			e.changed[k] = true
			return
		}
	}
}

// reindex brings the rows that the index lacks into it, once they are many.
func (e *edit) reindex(ctx context.Context) error {
	clear(e.parts)
	if e.root.Rows-e.root.Indexed < indexed {
		return nil
	}
	prefix := prefixOf(e.manager)
	for k := range shards {
		e.parts[k] = shard{}
	}
	if err := e.readParts(ctx); err != nil {
		return err
	}
	for k := e.root.Indexed / workflows.RegistryPage; k*workflows.RegistryPage < e.root.Rows; k++ {
		p := e.pages[k]
		if p == nil {
			p = &page{}
			if err := e.r.get(ctx, prefix, e.root.Pages[k], p); err != nil {
				return err
			}
		}
		for _, row := range p.Rows {
			e.parts[shardOf(row.WorkflowID)][row.WorkflowID] = row.Row
		}
	}
	e.root.Indexed = e.root.Rows
	return nil
}

// write stores what is new, then the root, then the head, and removes what the
// save before this one replaced.
func (e *edit) write(ctx context.Context) (string, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registryIO)
	for len(e.root.Pages)*workflows.RegistryPage < e.root.Rows {
		e.root.Pages = append(e.root.Pages, "")
	}
	for k := range e.changed {
		if err := e.put(gctx, g, &e.root.Pages[k], e.pages[k]); err != nil {
			return "", errors.Join(err, g.Wait())
		}
	}
	for k, part := range e.parts {
		if err := e.put(gctx, g, &e.root.Index[k], part); err != nil {
			return "", errors.Join(err, g.Wait())
		}
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	slices.Sort(e.root.Replaced)
	name, data, err := e.encode(e.root)
	if err != nil {
		return "", err
	}
	key := prefixOf(e.manager) + name
	if err := e.r.Store.Write(ctx, key, data); err != nil {
		return "", fmt.Errorf("writing the registry: %w", err)
	}
	if err := e.head(ctx, key); err != nil {
		return "", err
	}
	return key, e.tidy(ctx)
}

// put names a new blob in place of an old one and writes it.
func (e *edit) put(ctx context.Context, g *errgroup.Group, name *string, value any) error {
	next, data, err := e.encode(value)
	if err != nil {
		return err
	}
	if *name != "" {
		e.root.Replaced = append(e.root.Replaced, *name)
	}
	*name = next
	g.Go(func() error {
		if err := e.r.Store.Write(ctx, prefixOf(e.manager)+next, data); err != nil {
			return fmt.Errorf("writing %s of the registry: %w", next, err)
		}
		return nil
	})
	return nil
}

// encode names a blob by the save that makes it and its content.
func (e *edit) encode(value any) (name string, data []byte, err error) {
	if data, err = json.Marshal(value); err != nil {
		return "", nil, fmt.Errorf("encoding the registry: %w", err)
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%d-%s", e.root.Gen, hex.EncodeToString(sum[:12])), data, nil
}

// head makes the new root the manager's latest, unless a later one is already: an
// attempt may have been overtaken.
func (e *edit) head(ctx context.Context, key string) error {
	latest, err := e.r.Store.Get(ctx, headKey(e.manager))
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("reading the registry's head: %w", err)
	}
	if genOf(string(latest)) > e.root.Gen {
		return nil
	}
	if err := e.r.Store.Write(ctx, headKey(e.manager), []byte(key)); err != nil {
		return fmt.Errorf("writing the registry's head: %w", err)
	}
	return nil
}

// tidy removes what the root before this one had replaced.
func (e *edit) tidy(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registryIO)
	for _, name := range e.old {
		g.Go(func() error {
			if err := e.r.Store.Delete(gctx, prefixOf(e.manager)+name); err != nil && !errors.Is(err, blob.ErrNotFound) {
				return fmt.Errorf("removing %s of the registry: %w", name, err)
			}
			return nil
		})
	}
	return g.Wait()
}
