package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

const (
	// keptRows is how many sessions a manager keeps in its state, the newest, so that
	// a list's first page needs no blob store.
	keptRows = 200
	// RegistryPage is how many rows leave for the registry at once: a page of it.
	RegistryPage = 100
	// maxChanges bounds the changes that one save takes.
	maxChanges = 100
	// maxField bounds each text of a row, in bytes.
	maxField = 256
	// saveWait is how long a run's end waits for a save under way; the next run does
	// it again otherwise.
	saveWait = time.Second
)

// RowChange is a change of a session's row. Applying it twice does no harm.
type RowChange struct {
	WorkflowID string `json:"workflow_id"`
	// What is empty stays as it is.
	Title       string    `json:"title,omitempty"`
	Boundary    *Boundary `json:"boundary,omitempty"`
	Liveness    string    `json:"liveness,omitempty"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	DestroyedBy string    `json:"destroyed_by,omitempty"`
	// Forks is how many there are.
	Forks int `json:"forks,omitempty"`
}

// Apply brings the row up to date.
func (c RowChange) Apply(row *SessionRow) {
	set := func(field *string, value string) {
		if value != "" {
			*field = cutText(value, maxField)
		}
	}
	if b := c.Boundary; b != nil {
		row.Snapshot, row.Transcript, row.Turn = b.Snapshot, b.Transcript, b.Turn
		set(&row.Title, b.Title)
		set(&row.Model, b.Model)
		set(&row.Backend, b.Backend)
	}
	set(&row.Title, c.Title)
	set(&row.Liveness, c.Liveness)
	set(&row.DestroyedBy, c.DestroyedBy)
	if !c.EndedAt.IsZero() {
		row.EndedAt = c.EndedAt
	}
	row.Forks = max(row.Forks, c.Forks)
}

// merge adds a later change of the same session.
func (c *RowChange) merge(later RowChange) {
	set := func(field *string, value string) {
		if value != "" {
			*field = value
		}
	}
	if later.Boundary != nil {
		c.Boundary = later.Boundary
		set(&c.Title, later.Boundary.Title)
	}
	set(&c.Title, later.Title)
	set(&c.Liveness, later.Liveness)
	set(&c.DestroyedBy, later.DestroyedBy)
	if !later.EndedAt.IsZero() {
		c.EndedAt = later.EndedAt
	}
	c.Forks = max(c.Forks, later.Forks)
}

// addRow records a session that has started.
func (s *manager) addRow(ctx workflow.Context, o *Opening) {
	r := o.Request
	row := SessionRow{
		Row: s.st.Next, WorkflowID: r.Thread.WorkflowID(), Thread: r.Thread, Title: r.Title,
		Backend: cutText(r.Backend, maxField), Workspace: cutText(r.Workspace, maxField), Model: cutText(r.Model, maxField),
		Liveness: LivenessActive, Parent: o.Parent, By: r.By, StartedAt: workflow.Now(ctx),
	}
	row.By.Groups, row.By.Name = nil, cutText(row.By.Name, maxField)
	if row.Title == "" {
		row.Title = TitleOf(r.Task.Text.Text)
	}
	if row.Backend == "" {
		row.Backend = s.set.Backend
	}
	s.st.Next++
	s.st.Rows = append(s.st.Rows, row)
}

// row is the session in the manager's state; nil for one in the registry.
func (s *manager) row(id string) *SessionRow {
	if i := s.index(id); i >= 0 {
		return &s.st.Rows[i]
	}
	return nil
}

func (s *manager) index(id string) int {
	return slices.IndexFunc(s.st.Rows, func(r SessionRow) bool { return r.WorkflowID == id })
}

// find looks a session up here and in the registry; nil is one that nobody knows.
// It returns a copy, with all that is known.
func (s *manager) find(ctx workflow.Context, id string) (*SessionRow, error) {
	if err := workflow.Await(ctx, func() bool { return !s.restoring }); err != nil {
		return nil, err
	}
	for {
		if row := s.row(id); row != nil {
			found := *row
			return &found, nil
		}
		archive := s.st.Archive
		if archive == "" {
			return nil, nil
		}
		var res FindSessionResult
		f := workflow.ExecuteActivity(lookOptions(ctx), ActivityFindSession, FindSessionInput{Archive: archive, WorkflowID: id})
		err := s.get(ctx, f, &res)
		switch {
		case errors.Is(err, errDraining):
			return nil, err
		case s.st.Archive != archive:
			continue // it was saved anew meanwhile
		case err != nil:
			return nil, fmt.Errorf("looking a session up: %w", err)
		case !res.Found:
			return nil, nil
		}
		for _, c := range s.st.Changes {
			if c.WorkflowID == id {
				c.Apply(&res.Row)
			}
		}
		return &res.Row, nil
	}
}

// change changes a session's row, wherever it is.
func (s *manager) change(c RowChange) {
	i := s.index(c.WorkflowID)
	if i >= 0 {
		c.Apply(&s.st.Rows[i])
	}
	if i >= s.saving {
		return
	}
	for k := s.sent; k < len(s.st.Changes); k++ {
		if s.st.Changes[k].WorkflowID == c.WorkflowID {
			s.st.Changes[k].merge(c)
			return
		}
	}
	if i >= 0 || s.st.Archive != "" || s.restoring {
		s.st.Changes = append(s.st.Changes, c)
	}
}

// forked counts one more fork of a session, of which known were known.
func (s *manager) forked(id string, known int) int {
	if row := s.row(id); row != nil {
		known = max(known, row.Forks)
	}
	for _, c := range s.st.Changes {
		if c.WorkflowID == id {
			known = max(known, c.Forks)
		}
	}
	s.change(RowChange{WorkflowID: id, Forks: known + 1})
	return known + 1
}

// keep moves what is not of the newest into the registry as it comes.
func (s *manager) keep(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return s.draining || s.over() || len(s.st.Changes) > 0 })
		if s.draining || ctx.Err() != nil || s.save(ctx, s.pageFull()) != nil {
			return
		}
	}
}

// over reports that a whole page of rows is more than is kept.
func (s *manager) over() bool { return len(s.st.Rows) >= keptRows+RegistryPage }

// pageFull is how many rows the next save takes.
func (s *manager) pageFull() int {
	if s.over() {
		return RegistryPage
	}
	return 0
}

// save moves the n oldest rows and the first changes into the registry. Until it
// has them, they are here too.
func (s *manager) save(ctx workflow.Context, n int) error {
	s.saving, s.sent = n, min(len(s.st.Changes), maxChanges)
	defer func() { s.saving, s.sent = 0, 0 }()
	var res SaveRegistryResult
	err := workflow.ExecuteActivity(recordOptions(ctx), ActivitySaveRegistry, SaveRegistryInput{
		ManagerID: s.id, Archive: s.st.Archive,
		Rows: slices.Clone(s.st.Rows[:n]), Changes: slices.Clone(s.st.Changes[:s.sent]),
	}).Get(ctx, &res)
	if err != nil {
		return fmt.Errorf("saving the registry: %w", err)
	}
	s.st.Archive = res.Archive
	s.st.Rows = slices.Delete(s.st.Rows, 0, n)
	s.st.Changes = slices.Delete(s.st.Changes, 0, s.sent)
	return nil
}

// trim ends what is being saved and makes sure that what a run carries is bounded.
func (s *manager) trim(ctx workflow.Context) error {
	if s.busySaving() {
		if _, err := awaitFor(ctx, saveWait, func() bool { return !s.busySaving() }); err != nil {
			return err
		}
	}
	for s.over() || len(s.st.Changes) > maxChanges {
		if err := workflow.Await(ctx, func() bool { return !s.busySaving() }); err != nil {
			return err
		}
		if err := s.save(ctx, s.pageFull()); err != nil {
			return err
		}
	}
	return nil
}

func (s *manager) busySaving() bool { return s.saving+s.sent > 0 }

// saveAll moves everything into the registry, for a manager that is shut down.
func (s *manager) saveAll(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !s.busySaving() }); err != nil {
		return err
	}
	for len(s.st.Rows)+len(s.st.Changes) > 0 {
		if err := s.save(ctx, min(len(s.st.Rows), RegistryPage)); err != nil {
			return err
		}
	}
	return nil
}

// list answers [QueryListSessions] with what the manager has here.
func (s *manager) list(q ListSessions) (SessionList, error) {
	before, err := q.BeforeRow()
	if err != nil {
		return SessionList{}, err
	}
	out := SessionList{Sessions: []SessionRow{}, Archive: s.st.Archive, Changes: s.st.Changes}
	for _, row := range slices.Backward(s.st.Rows) {
		if row.Row >= before {
			continue
		}
		if len(out.Sessions) == q.Size() {
			out.Next = out.Sessions[len(out.Sessions)-1].Cursor()
			break
		}
		out.Sessions = append(out.Sessions, row)
	}
	for _, o := range s.st.Opening {
		if t := o.Request.Thread; t.ID != "" && q.Before == "" {
			out.Opening = append(out.Opening, t.WorkflowID())
		}
		if from := o.Request.From; from != nil {
			out.Sources = append(out.Sources, from.WorkflowID)
			if from.Snapshot != "" {
				out.Needed = append(out.Needed, from.Snapshot)
			}
		}
		out.Files = append(out.Files, FilesOf(append(slices.Clone(o.Joined), o.Request.Task)...)...)
	}
	return out, nil
}
