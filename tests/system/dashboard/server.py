"""A holdfastd of the test's own, on a free port, and its API as other clients use it."""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from browser import Failure


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever the environment says of proxies


class Server:
    """Owns one holdfastd, its database and its tokens; all are gone after close()."""

    def __init__(self, program, people):
        """`people`: the scopes of each name that gets a token. With none of them nobody is asked for one."""
        self._program = program
        self._folder = tempfile.mkdtemp(prefix='holdfast-dashboard-')
        self._file = os.path.join(self._folder, 'tokens')
        self.tokens = {name: self._make_token(name, scopes) for name, scopes in people.items()}
        self._process = None
        self.url = None
        self.start()

    def _make_token(self, name, scopes):
        words = [self._program, 'token', '--tokens', self._file, name, '--scope', scopes]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=20).stdout.split()[-1]

    def start(self):
        """The second time on the port of the first."""
        address = self.url.removeprefix('http://') if self.url else '127.0.0.1:0'
        words = [self._program, '--listen', address, '--store', 'sqlite:' + os.path.join(self._folder, 'claims.db')]
        if self.tokens:
            words += ['--tokens', self._file]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if not select.select([self._process.stdout], [], [], 20)[0]:
            raise Failure('holdfastd says nothing')
        line = self._process.stdout.readline()
        if 'listening on http://' not in line:
            raise Failure(f'holdfastd says {line!r}')
        self.url = line.split()[-1]

    def stop(self):
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def close(self):
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- as other clients

    def page(self):
        """The head and the text of the dashboard."""
        with _direct.open(self.url + '/', timeout=20) as reply:
            return reply.headers, reply.read().decode()

    def ask(self, method, path, body=None, person='root'):
        request = urllib.request.Request(self.url + path, method=method)
        if self.tokens:
            request.add_header('Authorization', 'Bearer ' + self.tokens[person])
        if body is not None:
            request.add_header('Content-Type', 'application/json')
            request.data = json.dumps(body).encode()
        try:
            with _direct.open(request, timeout=20) as reply:
                text = reply.read()
        except urllib.error.HTTPError as refusal:
            raise Failure(f'{method} {path}: {refusal.code} {refusal.read().decode()}') from None
        except OSError as fault:
            raise Failure(f'{method} {path}: {fault}') from None
        return json.loads(text) if text else None

    def claim(self, resource, person, ttl=600, **more):
        return self.ask('POST', '/v1/claims/', {'resource': resource, 'ttl': ttl, **more}, person)['id']

    def release(self, number, person):
        self.ask('PATCH', f'/v1/claims/{number}/', {'status': 'released'}, person)

    def renew(self, number, person, ttl):
        self.ask('PATCH', f'/v1/claims/{number}/', {'ttl': ttl}, person)

    def look(self, number):
        return self.ask('GET', f'/v1/claims/{number}/')
