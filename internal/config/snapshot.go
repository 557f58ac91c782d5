package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Snapshot is the settings of a running cmd/dev that a process on the same
// data directory uses instead of its own, so that all decide alike. It holds
// no secret and nothing about other chat platforms.
type Snapshot struct {
	// TemporalAddress and Namespace name the server that the cmd/dev embeds; a
	// worker pointed at another one does not use the snapshot.
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	// Settings are values by key, as a list each; one value for what is no list.
	Settings map[string][]string `json:"settings"`
}

// shared are the beginnings of the keys that a snapshot carries.
var shared = []string{"blob.", "openai.", "budget.", "mcp.", "sandbox.", "policy.", "approvals.", "web.listen", "workspaces"}

// Snapshot returns c's settings for a worker. The address and namespace are
// the caller's, since c knows nothing of an embedded server. The model is
// "offline" when that is what c amounts to: the worker may have a key.
func (c *Config) Snapshot(address, namespace string) Snapshot {
	s := Snapshot{TemporalAddress: address, Namespace: namespace, Settings: map[string][]string{}}
	for _, f := range fieldsOf(c) {
		if f.isShared() {
			s.Settings[f.key] = append([]string{}, f.get().items...)
		}
	}
	if c.OpenAI.Offline() {
		s.Settings["openai.model"] = []string{ModelOffline}
	}
	return s
}

func (f field) isShared() bool {
	if f.isSecret() {
		return false
	}
	for _, prefix := range shared {
		if strings.HasPrefix(f.key, prefix) {
			return true
		}
	}
	return false
}

// ParseSnapshot reads what a marshalled [Snapshot] holds. Keys that this
// version does not know are left out: the two programs may differ by a version.
func ParseSnapshot(data []byte) (*Snapshot, error) {
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading settings snapshot: %w", err)
	}
	known := map[string]bool{}
	for _, f := range fieldsOf(new(Config)) {
		known[f.key] = f.isShared()
	}
	for key := range s.Settings {
		if !known[key] {
			delete(s.Settings, key)
		}
	}
	return &s, nil
}

func (s *Snapshot) layer() layer {
	lists := map[string]bool{}
	for _, f := range fieldsOf(new(Config)) {
		lists[f.key] = f.isList()
	}
	out := layer{}
	for key, items := range s.Settings {
		out[key] = value{items: items, list: lists[key], source: "cmd/dev's settings"}
	}
	return out
}
