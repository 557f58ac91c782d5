package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// archiveCursor marks a list cursor that names a page of the registry.
const archiveCursor = "archive:"

// Registry keeps the ended sessions of each manager in the blob store: pages of
// rows, each naming the page before it.
type Registry struct {
	Store *blob.Store
}

type page struct {
	Rows []workflows.SessionRow `json:"rows"`
	Prev string                 `json:"prev,omitempty"`
}

func headKey(managerID string) string {
	return "registry/" + strings.ReplaceAll(managerID, "/", "_") + "/head"
}

// Save adds a page. Saving the same rows over the same page gives the same page.
func (r *Registry) Save(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	data, err := json.Marshal(page{Rows: in.Rows, Prev: in.Archive})
	if err != nil {
		return workflows.SaveRegistryResult{}, fmt.Errorf("encoding a registry page: %w", err)
	}
	sum := sha256.Sum256(data)
	key := "registry/" + strings.ReplaceAll(in.ManagerID, "/", "_") + "/" + hex.EncodeToString(sum[:16]) + ".json"
	if err := r.Store.Write(ctx, key, data); err != nil {
		return workflows.SaveRegistryResult{}, fmt.Errorf("writing a registry page: %w", err)
	}
	if err := r.Store.Write(ctx, headKey(in.ManagerID), []byte(key)); err != nil {
		return workflows.SaveRegistryResult{}, fmt.Errorf("writing the registry's head: %w", err)
	}
	return workflows.SaveRegistryResult{Archive: key}, nil
}

// Load returns the newest page that was saved for a manager, if any.
func (r *Registry) Load(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	data, err := r.Store.Get(ctx, headKey(in.ManagerID))
	if errors.Is(err, blob.ErrNotFound) {
		return workflows.SaveRegistryResult{}, nil
	}
	if err != nil {
		return workflows.SaveRegistryResult{}, fmt.Errorf("reading the registry's head: %w", err)
	}
	return workflows.SaveRegistryResult{Archive: string(data)}, nil
}

// Find looks for a session from the newest page on.
func (r *Registry) Find(ctx context.Context, in workflows.FindSessionInput) (workflows.FindSessionResult, error) {
	for key := in.Archive; key != ""; {
		p, err := r.page(ctx, key)
		if err != nil {
			return workflows.FindSessionResult{}, err
		}
		for _, row := range p.Rows {
			if row.WorkflowID == in.WorkflowID {
				return workflows.FindSessionResult{Found: true, Row: row}, nil
			}
		}
		key = p.Prev
	}
	return workflows.FindSessionResult{}, nil
}

func (r *Registry) page(ctx context.Context, key string) (page, error) {
	var p page
	if !strings.HasPrefix(key, "registry/") || strings.Contains(key, "..") {
		return p, errors.New("that cursor names no page of the registry")
	}
	data, err := r.Store.Get(ctx, key)
	if err != nil {
		return p, fmt.Errorf("reading registry page %s: %w", key, err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("decoding registry page %s: %w", key, err)
	}
	return p, nil
}

// list is one page of ended sessions, newest first.
func (r *Registry) list(ctx context.Context, key string) (workflows.SessionList, error) {
	p, err := r.page(ctx, key)
	if err != nil {
		return workflows.SessionList{}, err
	}
	slices.Reverse(p.Rows)
	out := workflows.SessionList{Sessions: p.Rows}
	if p.Prev != "" {
		out.Next = archiveCursor + p.Prev
	}
	return out, nil
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
		for key := string(head); key != ""; {
			p, err := r.page(ctx, key)
			if err != nil {
				return err
			}
			for _, row := range p.Rows {
				if err := do(ctx, row); err != nil {
					return err
				}
			}
			key = p.Prev
		}
	}
	return nil
}
