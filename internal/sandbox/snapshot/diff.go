package snapshot

import (
	"cmp"
	"path"
	"slices"
)

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
	d := differ{is: is, changed: make([]bool, len(is)), shared: map[uint64]bool{}}
	var gone []*Entry
	i, j := 0, 0
	for i < len(was) || j < len(is) {
		switch {
		case j == len(is) || i < len(was) && was[i].Name < is[j].Name:
			gone = append(gone, &was[i])
			d.share(&was[i])
			i++
		case i == len(was) || is[j].Name < was[i].Name:
			d.change(j)
			j++
		default:
			if !is[j].same(&was[i]) {
				d.change(j)
				d.share(&was[i])
			}
			i++
			j++
		}
	}
	var c change
	if !d.any && len(gone) == 0 {
		return c
	}
	for _, e := range gone {
		// Below what is gone or is no directory any more, all is gone anyway.
		dir := path.Dir(e.Name)
		at, ok := d.find(dir)
		if ok && is[at].Kind == Dir {
			d.changed[at] = true
		} else if dir != "." {
			continue
		}
		c.gone = append(c.gone, e.Name)
	}
	c.collect(&d)
	return c
}

// differ is a comparison of trees.
type differ struct {
	is      []Entry
	changed []bool // of is
	any     bool
	shared  map[uint64]bool // inodes of several names, one of which has changed
}

func (d *differ) change(i int) {
	d.changed[i], d.any = true, true
	d.share(&d.is[i])
}

func (d *differ) share(e *Entry) {
	if e.Kind == File && e.Links > 1 {
		d.shared[e.Inode] = true
	}
}

func (d *differ) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.is, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
}

func (c *change) collect(d *differ) {
	is, changed := d.is, d.changed
	if len(d.shared) > 0 {
		for i := range is {
			if e := &is[i]; e.Kind == File && e.Links > 1 && d.shared[e.Inode] {
				changed[i] = true
			}
		}
	}
	for i := range is {
		if !changed[i] {
			continue
		}
		for dir := path.Dir(is[i].Name); dir != "."; dir = path.Dir(dir) {
			at, ok := d.find(dir)
			if !ok || changed[at] && at < i {
				break
			}
			changed[at] = true
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
