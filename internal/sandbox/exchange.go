package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// maxShownEntries is how much of a directory people are shown.
	maxShownEntries = 200
	// maxNameBytes is how long the name of an attached file may be: less than file
	// systems take, with room for a number.
	maxNameBytes = 120
)

// ReadFiles reads a file of the workspace for the people of a thread, or lists a
// directory. What a path's name says to hold credentials is refused; known secrets
// are masked in text, and a binary file that holds one is refused.
func (a *Activities) ReadFiles(ctx context.Context, in workflows.ReadFilesInput) (workflows.ReadFilesResult, error) {
	defer a.beat(ctx)()
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.ReadFilesResult{}, activityError(ctx, err)
	}
	res, err := a.readFiles(ctx, s, in)
	if err == nil && in.Release {
		if rerr := s.Release(ctx); rerr != nil {
			a.cfg.Log.WarnContext(ctx, "Sandbox was not released", telemetry.KeyWorkflowID, in.WorkflowID, telemetry.KeyError, rerr)
		}
	}
	return res, activityError(ctx, err)
}

func (a *Activities) readFiles(ctx context.Context, s Session, in workflows.ReadFilesInput) (workflows.ReadFilesResult, error) {
	if in.Path == "" {
		in.Path = "."
	}
	at, err := insideFile(ctx, s, in.Path)
	var bad badCall
	switch {
	case errors.As(err, &bad):
		return a.told(ctx, in.WorkflowID, string(bad))
	case err != nil:
		return workflows.ReadFilesResult{}, err
	}
	name := shownPath(s, at.Resolved)
	env := envOf(in.Sandbox, in.Sandbox.Root)
	switch {
	case !at.Exists:
		return a.told(ctx, in.WorkflowID, code(name)+" does not exist in the workspace.")
	case at.Mode.IsDir():
		return a.listed(ctx, s, in, at.Resolved, name)
	case !at.Mode.IsRegular():
		return a.told(ctx, in.WorkflowID, code(name)+" is no regular file.")
	case a.cfg.Gate.Secret(at.Resolved, env) || a.cfg.Gate.Secret(s.Info().Abs(in.Path), env):
		return a.told(ctx, in.WorkflowID, code(name)+" may hold credentials, so it is not sent to a thread.")
	}
	return a.sent(ctx, s, in, at, name)
}

// told is a result of a sentence.
func (a *Activities) told(ctx context.Context, workflowID, text string) (workflows.ReadFilesResult, error) {
	ref, err := a.putText(ctx, owned.Prefix(owned.Outputs, workflowID), a.cfg.Mask.Text(text))
	return workflows.ReadFilesResult{Text: ref}, err
}

// shownPath is a resolved path as people know it: relative to the workspace.
func shownPath(s Session, p string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(p, s.Info().Workspace), "/")
	if rel == "" {
		return "."
	}
	return clean(rel)
}

// code writes s so that no Markdown in it counts.
func code(s string) string {
	s = strings.NewReplacer("`", "'", "\n", "␊", "\r", "␍").Replace(s)
	return "`" + s + "`"
}

func (a *Activities) listed(ctx context.Context, s Session, in workflows.ReadFilesInput, dir, name string) (workflows.ReadFilesResult, error) {
	text, more, err := Listing(ctx, s, dir, 1, maxShownEntries)
	switch {
	case err != nil && (fatal(ctx, err) || !ofPath(err)):
		return workflows.ReadFilesResult{}, err
	case err != nil:
		return a.told(ctx, in.WorkflowID, code(name)+" cannot be listed.")
	case text == "":
		return a.told(ctx, in.WorkflowID, code(name)+" is empty.")
	}
	head := "Files in " + code(name)
	if name == "." {
		head = "Files of the workspace"
	}
	if more {
		head += fmt.Sprintf(", the first %d", maxShownEntries)
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return a.told(ctx, in.WorkflowID, head+", with sizes in bytes. `files <path>` sends one.\n\n"+fence+"\n"+text+fence)
}

// sent keeps a file's content for the bot to post.
func (a *Activities) sent(ctx context.Context, s Session, in workflows.ReadFilesInput, at FileInfo, name string) (workflows.ReadFilesResult, error) {
	if at.Size > workflows.MaxFileBytes {
		return a.told(ctx, in.WorkflowID, fmt.Sprintf("%s is %s; files of at most %s can be sent to a thread.", code(name), megabytes(at.Size), megabytes(workflows.MaxFileBytes)))
	}
	data, size, err := s.ReadFile(ctx, at.Resolved, workflows.MaxFileBytes)
	switch {
	case err != nil && (fatal(ctx, err) || !ofPath(err)):
		return workflows.ReadFilesResult{}, err
	case err != nil:
		return a.told(ctx, in.WorkflowID, code(name)+" may not be read.")
	case size > int64(len(data)):
		return a.told(ctx, in.WorkflowID, code(name)+" grows while it is read; try again.")
	}
	if size == 0 {
		return a.told(ctx, in.WorkflowID, code(name)+" is empty.")
	}
	m := a.masker(in.Sandbox.Workspace)
	text := code(name) + ", " + megabytes(int64(len(data))) + "."
	if masked, changed := maskFile(m, data); changed {
		if masked == nil {
			return a.told(ctx, in.WorkflowID, code(name)+" is no text and holds a secret, so it is not sent to a thread.")
		}
		data, text = masked, text+" Secrets in it are masked."
	}
	key, err := a.cfg.Blobs.Put(ctx, owned.Prefix(owned.Sent, in.WorkflowID), data)
	if err != nil {
		return workflows.ReadFilesResult{}, err
	}
	res, err := a.told(ctx, in.WorkflowID, text)
	res.File = &workflows.FileRef{Name: SafeName(path.Base(name)), Ref: key, Bytes: int64(len(data))}
	return res, err
}

// maskFile masks text; of other content it only says that it would change it.
func maskFile(m *mask.Masker, data []byte) (masked []byte, changed bool) {
	out := m.Bytes(data)
	if bytes.Equal(out, data) {
		return nil, false
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, true
	}
	return out, true
}

// megabytes is a size as people read it, in MB of 10^6.
func megabytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1e6:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// SafeName makes a name from outside fit to be a file's: no separators, no
// characters that do not show or that shells and Markdown take for their own, no
// leading dot or dash, at most 120 bytes with its ending kept.
func SafeName(name string) string {
	name = strings.ToValidUTF8(name, "_")
	if at := strings.LastIndexAny(name, `/\`); at >= 0 {
		name = name[at+1:]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune("._-+=,@()[] ", r):
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(strings.TrimSpace(name), ".-")
	if strings.Trim(name, "._ ") == "" {
		name = "file"
	}
	if ext := path.Ext(name); len(name) > maxNameBytes {
		if len(ext) > 20 {
			ext = ""
		}
		name = cutText(name, maxNameBytes-len(ext)) + ext
	}
	return name
}

// ImportFiles puts attached files into the workspace, under names that are free.
// A file that is there with this very content, from an attempt before, is left.
func (a *Activities) ImportFiles(ctx context.Context, in workflows.ImportFilesInput) (workflows.ImportFilesResult, error) {
	defer a.beat(ctx)()
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.ImportFilesResult{}, activityError(ctx, err)
	}
	unlock, err := a.lockSession(ctx, in.Sandbox)
	if err != nil {
		return workflows.ImportFilesResult{}, err
	}
	defer unlock()
	var res workflows.ImportFilesResult
	taken := map[string]bool{}
	for _, f := range in.Files {
		placed, err := a.place(ctx, s, f, taken)
		if err != nil {
			return workflows.ImportFilesResult{}, activityError(ctx, err)
		}
		res.Files = append(res.Files, placed)
	}
	return res, nil
}

// maxNumbered is how many files of one name are told apart.
const maxNumbered = 1000

// place writes one file, unless its content stands there already.
func (a *Activities) place(ctx context.Context, s Session, f workflows.FileRef, taken map[string]bool) (workflows.PlacedFile, error) {
	out := workflows.PlacedFile{Name: f.Name, Bytes: f.Bytes}
	data, err := a.cfg.Blobs.Get(ctx, f.Ref)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrBadKey):
		out.Problem = "it is no longer kept"
		return out, nil
	case err != nil:
		return out, fmt.Errorf("reading an attached file: %w", err)
	}
	sum := sha256.Sum256(data)
	name := SafeName(f.Name)
	for n := range maxNumbered {
		p := path.Join(workflows.AttachedDir, numbered(name, n))
		if taken[p] {
			continue
		}
		at, err := s.Stat(ctx, p)
		switch {
		case err != nil && fatal(ctx, err):
			return out, err
		case err != nil || at.Outside:
			out.Problem = workflows.AttachedDir + " leads out of the workspace"
			return out, nil
		case at.Exists:
			if have, err := s.Hash(ctx, p); err != nil || have != hex.EncodeToString(sum[:]) {
				continue
			}
		default:
			err := s.WriteFile(ctx, p, data)
			switch {
			case err != nil && (fatal(ctx, err) || noSpace(err)):
				return out, err
			case err != nil:
				out.Problem = "it could not be written to " + workflows.AttachedDir
				return out, nil
			}
		}
		taken[p] = true
		out.Path, out.Bytes = p, int64(len(data))
		return out, nil
	}
	out.Problem = "there are too many files of that name"
	return out, nil
}

// numbered is name, or with n "name-n" before its ending.
func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	ext := path.Ext(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n+1, ext)
}
