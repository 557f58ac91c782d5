package snapshot

import "path"

// change is what must be stored for a tree to be made from an earlier one.
type change struct {
	dirs, links []*Entry
	files       []*Entry // those whose content is stored
	hard        []hardLink
	gone        []string
}

// hardLink is a further name of a file of the same layer.
type hardLink struct {
	entry *Entry
	to    string
}

func (c *change) empty() bool {
	return len(c.dirs)+len(c.links)+len(c.files)+len(c.hard)+len(c.gone) == 0
}

// bytes is what the files hold.
func (c *change) bytes() (n int64) {
	for _, f := range c.files {
		n += f.Size
	}
	return n
}

// diff compares two trees, each in the order of names. All names of a file are
// stored in one layer, and so are the directories above whatever is stored.
func diff(was, is []Entry) change {
	old := make(map[string]*Entry, len(was))
	for i := range was {
		old[was[i].Name] = &was[i]
	}
	changed := make([]bool, len(is))
	kept := make(map[string]int, len(is))
	shared := map[uint64]bool{} // inodes of several names, one of which has changed
	any := false
	for i := range is {
		e := &is[i]
		kept[e.Name] = i
		before, ok := old[e.Name]
		if ok && e.same(before) {
			continue
		}
		changed[i], any = true, true
		if e.Kind == File && e.Links > 1 {
			shared[e.Inode] = true
		}
		if ok && before.Kind == File && before.Links > 1 {
			shared[before.Inode] = true
		}
	}
	var c change
	for i := range was {
		e := &was[i]
		if _, ok := kept[e.Name]; ok {
			continue
		}
		if e.Kind == File && e.Links > 1 {
			shared[e.Inode] = true
		}
		// Below what is gone or is no directory any more, all is gone anyway.
		at, ok := kept[path.Dir(e.Name)]
		if path.Dir(e.Name) == "." || ok && is[at].Kind == Dir {
			c.gone = append(c.gone, e.Name)
		}
	}
	if !any && len(c.gone) == 0 && len(shared) == 0 {
		return c
	}
	for _, name := range c.gone {
		if i, ok := kept[path.Dir(name)]; ok {
			changed[i] = true
		}
	}
	c.collect(is, changed, kept, shared)
	return c
}

func (c *change) collect(is []Entry, changed []bool, kept map[string]int, shared map[uint64]bool) {
	for i := range is {
		if e := &is[i]; e.Kind == File && e.Links > 1 && shared[e.Inode] {
			changed[i] = true
		}
	}
	for i := range is {
		if changed[i] {
			for dir := path.Dir(is[i].Name); dir != "."; dir = path.Dir(dir) {
				if at, ok := kept[dir]; ok {
					changed[at] = true
				}
			}
		}
	}
	first := map[uint64]string{}
	for i := range is {
		if !changed[i] {
			continue
		}
		e := &is[i]
		switch e.Kind {
		case Dir:
			c.dirs = append(c.dirs, e)
		case Link:
			c.links = append(c.links, e)
		case File:
			to, ok := first[e.Inode]
			if e.Links > 1 && ok {
				c.hard = append(c.hard, hardLink{e, to})
				continue
			}
			if e.Links > 1 {
				first[e.Inode] = e.Name
			}
			c.files = append(c.files, e)
		}
	}
}
