package release

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// writeArchive packs a folder under the name FOLDER into a compressed tar file.
func writeArchive(file, folder, dir string, modified time.Time) error {
	return create(file, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(pack(z, folder, dir, modified), z.Close())
	})
}

// WriteTar packs the contents of a folder at the top of a new tar file. All times are the start of Unix time.
func WriteTar(file, dir string) error { return writeTar(file, dir, time.Unix(0, 0)) }

// writeTar packs the contents of a folder at the top of the tar file.
func writeTar(file, dir string, modified time.Time) error {
	return create(file, func(w io.Writer) error { return pack(w, "", dir, modified) })
}

// create writes a new file.
func create(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// pack writes files and folders in the order of their names, owned by root, all with one time. Of the permissions it
// keeps only whether a file is executable.
func pack(w io.Writer, folder, dir string, modified time.Time) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		h := &tar.Header{
			Name: path.Join(folder, filepath.ToSlash(rel)), ModTime: modified.Truncate(time.Second), Format: tar.FormatPAX,
			Uname: "root", Gname: "root",
		}
		if d.IsDir() {
			if h.Name == "." {
				return nil
			}
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, h.Name+"/", 0o755
			return t.WriteHeader(h)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o644, int64(len(content))
		if info.Mode()&0o100 != 0 {
			h.Mode = 0o755
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(content)
		return err
	})
	return errors.Join(err, t.Close())
}
