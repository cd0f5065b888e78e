package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Recipe is the content of the last stage of a Dockerfile.
type Recipe struct {
	// Stage is the name of the stage that Files are copied from.
	Stage string
	// Files are the files of the image, in the order of the Dockerfile.
	Files []File
	// Labels, User and Entrypoint are the configuration of the image.
	Labels     map[string]string
	User       string
	Entrypoint []string
}

// File is one file of an image. Its owner is root.
type File struct {
	From string // path in the stage that it is copied from
	Path string // absolute path in the image
	Mode fs.FileMode
}

// instruction is one instruction of a Dockerfile, with its continued lines joined.
type instruction struct {
	line       int
	name, rest string
}

// ReadDockerfile reads the last stage of a Dockerfile, which must start with FROM scratch. args are the build arguments. It
// supports only the instructions that the Dockerfile of this project needs: ARG, LABEL, COPY from an earlier stage, USER and
// ENTRYPOINT. Any other instruction is an error with its line, so that the image cannot silently differ from the Dockerfile.
func ReadDockerfile(r io.Reader, args map[string]string) (*Recipe, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	all := instructions(string(text))
	last := -1
	for i, in := range all {
		if in.name == "FROM" {
			last = i
		}
	}
	if last < 0 || all[last].rest != "scratch" {
		return nil, errors.New("the last stage does not start with FROM scratch")
	}
	p := &stage{args: args, vars: map[string]string{}, recipe: &Recipe{Labels: map[string]string{}}}
	for _, in := range all[last+1:] {
		if err := p.add(in); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", in.line, in.name, err)
		}
	}
	return p.recipe, nil
}

// instructions splits a Dockerfile.
func instructions(text string) []instruction {
	var all []instruction
	var open *instruction
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part, continued := strings.CutSuffix(line, `\`)
		part = strings.TrimSpace(part)
		if open == nil {
			name, rest, _ := strings.Cut(part, " ")
			all = append(all, instruction{line: i + 1, name: strings.ToUpper(name), rest: strings.TrimSpace(rest)})
			open = &all[len(all)-1]
		} else {
			open.rest += " " + part
		}
		if !continued {
			open = nil
		}
	}
	return all
}

// stage collects the settings of the instructions read so far.
type stage struct {
	args, vars map[string]string
	recipe     *Recipe
}

func (s *stage) add(in instruction) error {
	switch in.name {
	case "ARG":
		return s.arg(in.rest)
	case "LABEL":
		return s.label(in.rest)
	case "COPY":
		return s.copy(in.rest)
	case "USER":
		s.recipe.User = s.expand(in.rest)
		return nil
	case "ENTRYPOINT":
		if err := json.Unmarshal([]byte(in.rest), &s.recipe.Entrypoint); err != nil {
			return fmt.Errorf("want the form [\"program\"], there is no shell: %w", err)
		}
		return nil
	}
	return errors.New("this instruction is not known")
}

func (s *stage) arg(rest string) error {
	name, value, _ := strings.Cut(rest, "=")
	if name == "" || strings.ContainsAny(rest, ` "'`) {
		return fmt.Errorf("%q: want NAME or NAME=value", rest)
	}
	if given, ok := s.args[name]; ok {
		value = given
	}
	s.vars[name] = value
	return nil
}

func (s *stage) label(rest string) error {
	for rest != "" {
		key, tail, ok := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(tail)
		if !ok || err != nil {
			return fmt.Errorf("%q: want KEY=\"value\"", rest)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return err
		}
		s.recipe.Labels[key] = s.expand(value)
		rest = strings.TrimSpace(tail[len(quoted):])
	}
	return nil
}

func (s *stage) copy(rest string) error {
	mode := fs.FileMode(0)
	from := ""
	words := strings.Fields(rest)
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		if v, ok := strings.CutPrefix(words[0], "--from="); ok {
			from = v
		} else if v, ok := strings.CutPrefix(words[0], "--chmod="); ok {
			bits, err := strconv.ParseUint(v, 8, 32)
			if err != nil || bits == 0 || bits > 0o777 {
				return fmt.Errorf("--chmod=%s: want permissions, such as 0555", v)
			}
			mode = fs.FileMode(bits)
		} else {
			return fmt.Errorf("%s is not known", words[0])
		}
		words = words[1:]
	}
	if from == "" || mode == 0 || s.recipe.Stage != "" && s.recipe.Stage != from {
		return errors.New("want --from with one stage for all files, and --chmod")
	}
	if len(words) < 2 || !path.IsAbs(words[len(words)-1]) || !strings.HasSuffix(words[len(words)-1], "/") {
		return errors.New("want files and, with a slash at its end, the absolute folder that they go to")
	}
	s.recipe.Stage = from
	to := words[len(words)-1]
	for _, w := range words[:len(words)-1] {
		s.recipe.Files = append(s.recipe.Files, File{From: w, Path: to + path.Base(w), Mode: mode})
	}
	return nil
}

// expand substitutes build arguments, as $NAME or ${NAME}.
func (s *stage) expand(text string) string {
	return os.Expand(text, func(name string) string { return s.vars[name] })
}
