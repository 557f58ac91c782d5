package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/workflows"
)

// StashMessages stores messages that wait for a session's model and returns their
// reference.
func (a *Activities) StashMessages(ctx context.Context, in workflows.StashInput) (string, error) {
	data, err := json.Marshal(in.Messages)
	if err != nil {
		return "", fmt.Errorf("encoding messages: %w", err)
	}
	ref, err := a.Registry.Store.Put(ctx, owned.Prefix(owned.Waiting, in.WorkflowID), data)
	if err != nil {
		return "", fmt.Errorf("storing messages: %w", err)
	}
	return ref, nil
}

// UnstashMessages reads messages that were stored.
func (a *Activities) UnstashMessages(ctx context.Context, in workflows.UnstashInput) (messages []workflows.Message, err error) {
	return messages, a.read(ctx, in.Ref, &messages)
}

// seenIDs are identities of messages that a session has taken, in order, and where
// older records of them are. Records double in size along the chain, so that it
// has few.
type seenIDs struct {
	IDs   []string `json:"ids"`
	Older string   `json:"older,omitempty"`
}

// RecordSeen adds identities and returns the reference of all. Doing it again from
// the same ones gives the same.
func (a *Activities) RecordSeen(ctx context.Context, in workflows.RecordSeenInput) (string, error) {
	record := seenIDs{IDs: in.IDs, Older: in.Older}
	for record.Older != "" {
		var older seenIDs
		if err := a.read(ctx, record.Older, &older); err != nil {
			return "", err
		}
		if len(older.IDs) > len(record.IDs) {
			break
		}
		record.IDs, record.Older = append(older.IDs, record.IDs...), older.Older
	}
	slices.SortFunc(record.IDs, workflows.CompareIDs)
	record.IDs = slices.Compact(record.IDs)
	data, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("encoding identities of messages: %w", err)
	}
	ref, err := a.Registry.Store.Put(ctx, owned.Prefix(owned.Seen, in.WorkflowID), data)
	if err != nil {
		return "", fmt.Errorf("storing identities of messages: %w", err)
	}
	return ref, nil
}

// FindSeen returns those of the identities that were recorded.
func (a *Activities) FindSeen(ctx context.Context, in workflows.FindSeenInput) ([]string, error) {
	found := []string{}
	for ref := in.Older; ref != ""; {
		var record seenIDs
		if err := a.read(ctx, ref, &record); err != nil {
			return nil, err
		}
		for _, id := range in.IDs {
			if _, ok := slices.BinarySearchFunc(record.IDs, id, workflows.CompareIDs); ok {
				found = append(found, id)
			}
		}
		ref = record.Older
	}
	return found, nil
}

// read reads what the blob store has under a reference. That it has nothing is for
// good.
func (a *Activities) read(ctx context.Context, ref string, into any) error {
	data, err := a.Registry.Store.Get(ctx, ref)
	if errors.Is(err, blob.ErrNotFound) {
		return temporal.NewNonRetryableApplicationError("the blob store has them no more.", workflows.ErrTypeNotFound, err)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding %s: %w", ref, err)
	}
	return nil
}
