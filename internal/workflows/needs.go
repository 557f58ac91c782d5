package workflows

import "slices"

// Needs answers [QueryNeeds]: what a live session may still ask the blob store for
// and that is not kept under the session's own name there.
type Needs struct {
	// Snapshots are those of the last two boundaries: a fork may be on its way with
	// the first of them.
	Snapshots []string `json:"snapshots,omitempty"`
	// Files are the IDs of files that came with messages which the model was not given
	// yet, and the references of such messages' long texts.
	Files []string `json:"files,omitempty"`
	// Stashed are more such messages, by their references in the blob store.
	Stashed []string `json:"stashed,omitempty"`
}

func (s *session) needs() (Needs, error) {
	var n Needs
	for _, ref := range []string{s.st.Boundary.Snapshot, s.st.Boundary.Previous} {
		if ref != "" {
			n.Snapshots = append(n.Snapshots, ref)
		}
	}
	n.Files = FilesOf(slices.Concat(s.st.Queue, s.st.Doubtful, s.unstashed)...)
	if t := s.st.Turn; t != nil {
		for _, it := range t.Append {
			if it.Message != nil {
				n.Files = append(n.Files, FilesOf(*it.Message)...)
			}
		}
	}
	for _, stash := range s.st.Stashed {
		n.Stashed = append(n.Stashed, stash.Ref)
	}
	return n, nil
}

// FilesOf are the IDs of the files that came with messages, and the references of
// what is long of their texts.
func FilesOf(messages ...Message) []string {
	var ids []string
	for _, m := range messages {
		for _, a := range m.Attachments {
			ids = append(ids, a.ID)
		}
		if m.Text.Ref != "" {
			ids = append(ids, m.Text.Ref)
		}
		if m.Earlier != nil && m.Earlier.Text.Ref != "" {
			ids = append(ids, m.Earlier.Text.Ref)
		}
	}
	return ids
}
